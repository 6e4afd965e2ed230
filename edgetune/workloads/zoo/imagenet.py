"""Classifiers of images: AlexNet, SqueezeNet, ResNet, GoogLeNet, and seven relatives of AlexNet.

AlexNet (Krizhevsky 2014, arXiv:1404.5997) and SqueezeNet 1.0 (arXiv:1602.07360) follow torchvision's ``alexnet.py`` and
``squeezenet.py``. ResNet-18 and ResNet-50 (He et al. 2015, arXiv:1512.03385) follow its ``resnet.py``: version 1.5,
whose bottlenecks stride in the 3x3 convolution.

Seven networks of the EdgeCaffe study descend from AlexNet and differ in a few numbers:

    image -> conv+relu, pool, norm -> conv+relu, pool, norm -> conv+relu ... pool -> fc, fc (dropout) -> fc

CaffeNet is AlexNet (Krizhevsky et al., NIPS 2012) as BVLC's ``bvlc_reference_caffenet`` lays it out: pooling before
normalisation, the second, fourth and fifth convolution in two groups. Four networks are a CaffeNet with another last
layer: faces (Farfade et al., arXiv:1502.02766), salient objects counted (Zhang et al., CVPR 2015), memorability, a
regression (Khosla et al., ICCV 2015), and scenes (Zhou et al., NIPS 2014, Places205). Age and gender are a smaller
relative (Levi and Hassner, CVPRW 2015). Emotions are VGG_S (Chatfield et al., arXiv:1405.3531; Levi and Hassner, ICMI
2015), which has no groups and one normalisation, before pooling.

The bytes of every layer agree with the files of weights of the EdgeCaffe study (Cox, MASA, 2020); a test holds that.
Two differences: the last softmax is left to the loss, as everywhere in the zoo; and the linear layers of the face
network, which its authors run as convolutions over larger images, are linear layers, equal at 227 pixels. Weights are
drawn as He et al. do, so that the output depends on the input through all eight layers.

GoogLeNet (Szegedy et al., arXiv:1409.4842) counts salient objects, as in the EdgeCaffe study: BVLC's ``bvlc_googlenet``
without the two classifiers that help training, with five classes (Zhang et al., CVPR 2015). Local response
normalisation stands where the original has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgetune.workloads import initial_weights as init

if TYPE_CHECKING:
    from edgetune.workloads.graph_builder import GraphBuilder, Value

_UNIFORM = init.Weights(init.kaiming_uniform, init.fan_in_uniform)
_FINAL = init.Weights(init.always(init.normal(0.01)), init.fan_in_uniform)

FIRES = ((3, 16, 64), (4, 16, 64), (5, 32, 128), (7, 32, 128), (8, 48, 192), (9, 48, 192), (10, 64, 256), (12, 64, 256))
"""Index in ``features``, squeeze channels, expand channels of each branch; indices 2, 6 and 11 are poolings."""


def alexnet(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """Five convolutions and three large linear layers.

    The adaptive pooling to 6 x 6, the identity at 224 pixels, is left out.
    """
    biased = init.BIASED
    x = graph.relu("features.1", graph.conv("features.0", image, 64, kernel=11, stride=4, padding=2, weights=biased))
    x = graph.max_pool("features.2", x, kernel=3, stride=2)
    x = graph.relu("features.4", graph.conv("features.3", x, 192, kernel=5, weights=biased))
    x = graph.max_pool("features.5", x, kernel=3, stride=2)
    for index, channels in ((6, 384), (8, 256), (10, 256)):
        x = graph.relu(f"features.{index + 1}", graph.conv(f"features.{index}", x, channels, kernel=3, weights=biased))
    x = graph.flatten("flatten", graph.max_pool("features.12", x, kernel=3, stride=2))
    for index in (0, 3):
        x = graph.linear(f"classifier.{index + 1}", graph.dropout(f"classifier.{index}", x, 0.5), 4096)
        x = graph.relu(f"classifier.{index + 2}", x)
    return {"logits": graph.linear("classifier.6", x, 1000)}


def squeezenet(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """Eight fire modules: a 1x1 squeeze, then 1x1 and 3x3 expansions side by side."""
    x = graph.relu("features.1", graph.conv("features.0", image, 96, kernel=7, stride=2, padding=0, weights=_UNIFORM))
    x = graph.max_pool("features.2", x, kernel=3, stride=2, ceil=True)
    for index, squeeze, expand in FIRES:
        x = _fire(graph, f"features.{index}", x, squeeze, expand)
        if index in (5, 10):
            x = graph.max_pool(f"features.{index + 1}", x, kernel=3, stride=2, ceil=True)
    x = graph.dropout("classifier.0", x, 0.5)
    x = graph.relu("classifier.2", graph.conv("classifier.1", x, 1000, kernel=1, weights=_FINAL))
    return {"logits": graph.flatten("flatten", graph.global_average_pool("classifier.3", x))}


def _fire(graph: GraphBuilder, name: str, x: Value, squeeze: int, expand: int) -> Value:
    x = graph.relu(f"{name}.squeeze_activation", graph.conv(f"{name}.squeeze", x, squeeze, kernel=1, weights=_UNIFORM))
    branches = [
        graph.relu(
            f"{name}.expand{side}x{side}_activation",
            graph.conv(f"{name}.expand{side}x{side}", x, expand, kernel=side, weights=_UNIFORM),
        )
        for side in (1, 3)
    ]
    return graph.concat(f"{name}.concat", branches, axis=1)


@dataclass(frozen=True, slots=True)
class _Conv:
    """A convolution with its ReLU; ``pool`` is kernel and stride of the pooling after it, ``norm`` where LRN stands."""

    channels: int
    kernel: int
    padding: int
    stride: int = 1
    groups: int = 1
    pool: tuple[int, int] | None = None
    norm: str = ""


_CAFFENET = (
    _Conv(96, 11, 0, stride=4, pool=(3, 2), norm="after"),
    _Conv(256, 5, 2, groups=2, pool=(3, 2), norm="after"),
    _Conv(384, 3, 1),
    _Conv(384, 3, 1, groups=2),
    _Conv(256, 3, 1, groups=2, pool=(3, 2)),
)
_FACES = (
    _Conv(96, 7, 0, stride=4, pool=(3, 2), norm="after"),
    _Conv(256, 5, 2, pool=(3, 2), norm="after"),
    _Conv(384, 3, 1, pool=(3, 2)),
)
_VGG_S = (
    _Conv(96, 7, 0, stride=2, pool=(3, 3), norm="before"),
    _Conv(256, 5, 0, pool=(2, 2)),
    _Conv(512, 3, 1),
    _Conv(512, 3, 1),
    _Conv(512, 3, 1, pool=(3, 3)),
)


def _relative(
    convolutions: tuple[_Conv, ...], outputs: int, *, hidden: int = 4096, spread: float = 1e-4, offset: float = 1.0,
    output: str = "logits",
) -> Callable[[GraphBuilder, Value], dict[str, Value]]:  # fmt: skip
    """Return a network of convolutions and three linear layers.

    Args:
        convolutions: The convolutions.
        outputs: Numbers that the last layer gives.
        hidden: Width of the two layers before.
        spread, offset: Alpha and k of the normalisation.
        output: Name of the output.
    """

    def build(graph: GraphBuilder, image: Value) -> dict[str, Value]:
        x = image
        for index, conv in enumerate(convolutions, start=1):
            x = graph.conv(
                f"conv{index}", x, conv.channels, kernel=conv.kernel, stride=conv.stride, padding=conv.padding,
                groups=conv.groups, weights=_UNIFORM,
            )  # fmt: skip
            x = graph.relu(f"relu{index}", x)
            if conv.norm == "before":
                x = graph.local_response_norm(f"norm{index}", x, spread=spread, offset=offset)
            if conv.pool is not None:
                kernel, stride = conv.pool
                x = graph.max_pool(f"pool{index}", x, kernel=kernel, stride=stride, ceil=True)
            if conv.norm == "after":
                x = graph.local_response_norm(f"norm{index}", x, spread=spread, offset=offset)
        x = graph.flatten("flatten", x)
        for index in (6, 7):
            x = graph.relu(f"relu{index}", graph.linear(f"fc{index}", x, hidden, initialise=init.kaiming_uniform))
            x = graph.dropout(f"drop{index}", x, 0.5)
        return {output: graph.linear("fc8", x, outputs)}

    return build


agenet = _relative(_FACES, 8, hidden=512)
"""Eight ranges of age."""
gendernet = _relative(_FACES, 2, hidden=512)
"""Two genders."""
facenet = _relative(_CAFFENET, 2)
"""A face, or none."""
sos = _relative(_CAFFENET, 5)
"""Salient objects: 0, 1, 2, 3, or more."""
memnet = _relative(_CAFFENET, 1, output="memorability")
"""How memorable the image is: one number."""
scenenet = _relative(_CAFFENET, 205)
"""205 scenes."""
emotionnet = _relative(_VGG_S, 7, spread=5e-4, offset=2.0)
"""Seven emotions."""


STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Width and stride of the first block, per stage."""


def resnet18(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """Two basic blocks (two 3x3 convolutions) per stage."""
    return _resnet(graph, image, blocks=(2, 2, 2, 2), bottleneck=False)


def resnet50(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """3, 4, 6 and 3 bottleneck blocks (1x1, 3x3, 1x1 to four times the width)."""
    return _resnet(graph, image, blocks=(3, 4, 6, 3), bottleneck=True)


def _resnet(graph: GraphBuilder, image: Value, *, blocks: tuple[int, ...], bottleneck: bool) -> dict[str, Value]:
    x = graph.relu("relu", _conv_norm(graph, "conv1", "bn1", image, 64, kernel=7, stride=2))
    x = graph.max_pool("maxpool", x, kernel=3, stride=2, padding=1)
    for stage, (width, first_stride) in enumerate(STAGES, start=1):
        for index in range(blocks[stage - 1]):
            stride = first_stride if index == 0 else 1
            x = _block(graph, f"layer{stage}.{index}", x, width, stride=stride, bottleneck=bottleneck)
    x = graph.flatten("flatten", graph.global_average_pool("avgpool", x))
    return {"logits": graph.linear("fc", x, 1000)}


def _block(graph: GraphBuilder, name: str, x: Value, width: int, *, stride: int, bottleneck: bool) -> Value:
    kernels = (1, 3, 1) if bottleneck else (3, 3)
    widths = (width, width, 4 * width) if bottleneck else (width, width)
    strided = 2 if bottleneck else 1  # which of the convolutions carries the stride
    y = x
    for number, (kernel, channels) in enumerate(zip(kernels, widths, strict=True), start=1):
        step = stride if number == strided else 1
        y = _conv_norm(graph, f"{name}.conv{number}", f"{name}.bn{number}", y, channels, kernel=kernel, stride=step)
        if number < len(kernels):
            y = graph.relu(f"{name}.relu{number}", y)
    if stride != 1 or x[1] != widths[-1]:
        x = _conv_norm(graph, f"{name}.downsample.0", f"{name}.downsample.1", x, widths[-1], kernel=1, stride=stride)
    return graph.relu(f"{name}.relu", graph.add(f"{name}.add", y, x))


def _conv_norm(
    graph: GraphBuilder, conv: str, norm: str, x: Value, channels: int, *, kernel: int, stride: int
) -> Value:
    return graph.batch_norm(
        norm, graph.conv(conv, x, channels, kernel=kernel, stride=stride, weights=init.Weights(init.kaiming_normal))
    )


INCEPTIONS = (
    ("3a", (64, 96, 128, 16, 32, 32)),
    ("3b", (128, 128, 192, 32, 96, 64)),
    ("4a", (192, 96, 208, 16, 48, 64)),
    ("4b", (160, 112, 224, 24, 64, 64)),
    ("4c", (128, 128, 256, 24, 64, 64)),
    ("4d", (112, 144, 288, 32, 64, 64)),
    ("4e", (256, 160, 320, 32, 128, 128)),
    ("5a", (256, 160, 320, 32, 128, 128)),
    ("5b", (384, 192, 384, 48, 128, 128)),
)
"""Name; channels of the 1x1, the 1x1 before the 3x3, the 3x3, the 1x1 before the 5x5, the 5x5, the last 1x1."""


def googlenet(graph: GraphBuilder, image: Value) -> dict[str, Value]:
    """Salient objects: 0, 1, 2, 3, or more; nine inception modules."""
    x = _conv_relu(graph, "conv1.7x7_s2", image, 64, kernel=7, stride=2)
    x = graph.max_pool("pool1", x, kernel=3, stride=2, ceil=True)
    x = graph.local_response_norm("conv1.norm1", x, spread=1e-4, offset=1.0)
    x = _conv_relu(graph, "conv2.3x3", _conv_relu(graph, "conv2.3x3_reduce", x, 64, kernel=1), 192, kernel=3)
    x = graph.local_response_norm("conv2.norm2", x, spread=1e-4, offset=1.0)
    x = graph.max_pool("pool2", x, kernel=3, stride=2, ceil=True)
    for name, channels in INCEPTIONS:
        x = _inception(graph, f"inception_{name}", x, channels)
        if name in ("3b", "4e"):
            x = graph.max_pool(f"pool{name[0]}", x, kernel=3, stride=2, ceil=True)
    x = graph.flatten("flatten", graph.global_average_pool("pool5", x))
    return {"logits": graph.linear("loss3.classifier", graph.dropout("pool5.drop", x, 0.4), 5)}


def _inception(graph: GraphBuilder, name: str, x: Value, channels: tuple[int, ...]) -> Value:
    """Four branches side by side: 1x1; 1x1 then 3x3; 1x1 then 5x5; pooling then 1x1."""
    one, before3, three, before5, five, after = channels
    pooled = graph.max_pool(f"{name}.pool", x, kernel=3, stride=1, padding=1)
    branches = [
        _conv_relu(graph, f"{name}.1x1", x, one, kernel=1),
        _conv_relu(
            graph, f"{name}.3x3", _conv_relu(graph, f"{name}.3x3_reduce", x, before3, kernel=1), three, kernel=3
        ),
        _conv_relu(graph, f"{name}.5x5", _conv_relu(graph, f"{name}.5x5_reduce", x, before5, kernel=1), five, kernel=5),
        _conv_relu(graph, f"{name}.pool_proj", pooled, after, kernel=1),
    ]
    return graph.concat(f"{name}.output", branches, axis=1)


def _conv_relu(graph: GraphBuilder, name: str, x: Value, channels: int, *, kernel: int, stride: int = 1) -> Value:
    """Convolution, ReLU."""
    x = graph.conv(name, x, channels, kernel=kernel, stride=stride, weights=_UNIFORM)
    return graph.relu(f"{name}.relu", x)
