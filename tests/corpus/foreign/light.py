"""The nine networks that the onnx package brings along: IR version 3, opset 9, weights made by ConstantOfShape."""

from functools import partial
from pathlib import Path

import onnx

from foreign.network import ForeignNetwork

FOLDER = Path(onnx.__file__).parent / "backend/test/data/light"
MACS = {
    "bvlc_alexnet": 654_560_384,
    "densenet121": 2_834_161_664,
    "inception_v1": 1_431_556_352,
    "inception_v2": 2_018_851_840,
    "resnet50": 4_089_184_256,
    "shufflenet": 124_664_528,
    "squeezenet": 349_151_936,
    "vgg19": 19_632_062_464,
    "zfnet512": 1_481_727_008,
}
"""Of every Conv, outputs times weights of one output; of every Gemm, outputs times the inner dimension."""
QUICK = ("shufflenet", "squeezenet")
"""Those that run in milliseconds and hardly need memory; the others are measured in slow tests only."""


def load(name):
    return onnx.load(FOLDER / f"light_{name}.onnx")


NETWORKS = tuple(
    ForeignNetwork(
        f"light_{name}", "IR version 3, weights made by ConstantOfShape", partial(load, name),
        {"gpu_0/data_0" if name in ("resnet50", "shufflenet", "zfnet512") else "data_0": (1, 3, 224, 224)},
        {"gpu_0/data_0" if name in ("resnet50", "shufflenet", "zfnet512") else "data_0": 0}, macs,
        slow=name not in QUICK,
    )
    for name, macs in MACS.items()
)  # fmt: skip
