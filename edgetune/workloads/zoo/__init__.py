"""The zoo: networks of the edge-inference literature, each defined once, as an ONNX graph.

The definition gives its operator costs (without weights), its inference on ONNX Runtime (weights drawn from a seed) and
a trainable PyTorch module (``edgetune.workloads.torch_module``).

To add a network: write a function like those in ``imagenet.py``, and give it a row in ``NETWORKS``.
Importing this module is cheap; onnx is loaded when a graph is built.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from edgetune.choices import nearest
from edgetune.errors import InputError
from edgetune.workloads.lazy import onnx
from edgetune.workloads.workload import Workload, WorkloadKind
from edgetune.workloads.zoo import imagenet, language, mobile
from edgetune.workloads.zoo.language import (
    BERT_SEQUENCE,
    BERT_VOCABULARY,
    LSTM_SEQUENCE,
    WIKITEXT_SEQUENCE,
    WIKITEXT_VOCABULARY,
    YOLO_IMAGE,
)

if TYPE_CHECKING:
    from edgetune.workloads.graph_builder import Value

PREFIX = "zoo:"
NETWORK_KEY = "edgetune.network"
"""Key of the model's metadata with the name of a zoo graph, also in an exported file."""

Loss = Literal["classification", "language", "detection", "regression"]


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a network.

    Args:
        name: Its name in the graph.
        shape: Shape of one sample; the graph prepends ``batch``.
        dtype: NumPy name of the element type.
        upper: For integers, the exclusive upper bound of values (e.g. a vocabulary); 0 for floats.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    upper: int = 0


@dataclass(frozen=True, slots=True)
class ZooNetwork:
    """A row of the zoo.

    Args:
        name: As in ``zoo:<name>``.
        build: Takes a ``GraphBuilder`` and a value per input; returns the outputs by name.
        inputs: Its inputs.
        source: Source of the architecture and of the published figures.
        parameters: Published number of parameters (exact, if the source prints none).
        macs: Published multiply-accumulates of one sample's forward pass (exact, if the source prints none): those of
            convolutions and linear layers, from their shapes.
        loss: Loss of training, see ``edgetune.workloads.torch_graph``.
        loads_images: Whether a sample is an image that CPU cores decode.
        learning_rate: Learning rate of SGD with momentum 0.9 for steady progress in training from scratch.
    """

    name: str
    build: Callable[..., dict[str, Value]]
    inputs: tuple[Input, ...]
    source: str
    parameters: int
    macs: int
    loss: Loss
    loads_images: bool
    learning_rate: float = 0.01


_IMAGE = (Input("image", (3, 224, 224)),)
_PHOTO = (Input("image", (3, YOLO_IMAGE, YOLO_IMAGE)),)
_CROP = (Input("image", (3, 227, 227)),)
_GRID = (Input("image", (3, 416, 416)),)
_WORDS = (Input("tokens", (LSTM_SEQUENCE,), "int64", WIKITEXT_VOCABULARY),)
_LONG_WORDS = (Input("tokens", (WIKITEXT_SEQUENCE,), "int64", WIKITEXT_VOCABULARY),)
_TEXT = (
    Input("input_ids", (BERT_SEQUENCE,), "int64", BERT_VOCABULARY),
    Input("attention_mask", (BERT_SEQUENCE,), "int64", 2),
    Input("token_type_ids", (BERT_SEQUENCE,), "int64", 2),
)
_MOBILE3, _MOBILE2 = "torchvision mobilenetv3.py", "torchvision mobilenetv2.py"
_RESNET, _ALEX, _SQUEEZE = "torchvision resnet.py", "torchvision alexnet.py", "torchvision squeezenet.py (1_0)"
_YOLO = "Ultralytics yolov8.yaml; MACs: half of its 8.7 GFLOP (fused)"
_LSTM = "Pagoda (arXiv:2509.20189); zoo/language.py says how its figures were met"
_FULCRUM = "Fulcrum (2025), table 3; MACs: half of its 3.9 GFLOP; zoo/language.py says how its figures were met"
_LEVI, _FARFADE, _KHOSLA = "Levi and Hassner, CVPRW 2015", "CaffeNet, arXiv:1502.02766", "CaffeNet, Khosla ICCV 2015"
_ZHANG, _ZHANG_INCEPTION = "CaffeNet, Zhang CVPR 2015", "GoogLeNet, Zhang CVPR 2015"
_PLACES, _VGG_S, _TINY = "CaffeNet, Places205", "VGG_S, arXiv:1405.3531", "darknet tiny-yolo, 80 classes"
_BERT = "arXiv:1810.04805; MACs: half of Pagoda's FLOP (arXiv:2509.20189 table 4) for large, its formula for base"

_ROWS: tuple[tuple[Any, ...], ...] = (
    ("mobilenet_v3_large", mobile, _IMAGE, _MOBILE3, 5_483_032, 217_000_000, "classification", True),
    ("mobilenet_v2", mobile, _IMAGE, _MOBILE2, 3_504_872, 301_000_000, "classification", True),
    ("resnet18", imagenet, _IMAGE, _RESNET, 11_689_512, 1_814_000_000, "classification", True),
    ("resnet50", imagenet, _IMAGE, _RESNET, 25_557_032, 4_089_000_000, "classification", True),
    ("yolov8n", mobile, _PHOTO, _YOLO, 3_157_200, 4_370_000_000, "detection", True),
    ("lstm", language, _WORDS, _LSTM, 8_614_383, 16_000_000, "language", False, 0.05),
    ("lstm_wikitext", language, _LONG_WORDS, _FULCRUM, 8_614_383, 1_950_000_000, "language", False, 0.05),
    ("bert_base", language, _TEXT, _BERT, 109_482_240, 11_175_000_000, "classification", False, 1e-3),
    ("bert_large", language, _TEXT, _BERT, 335_141_888, 39_570_000_000, "classification", False, 1e-3),
    ("alexnet", imagenet, _IMAGE, _ALEX, 61_100_840, 714_000_000, "classification", True, 1e-2),
    ("squeezenet", imagenet, _IMAGE, _SQUEEZE, 1_248_424, 819_000_000, "classification", True, 1e-3),
    ("agenet", imagenet, _CROP, _LEVI, 11_415_048, 709_253_120, "classification", True, 1e-4),
    ("gendernet", imagenet, _CROP, _LEVI, 11_411_970, 709_250_048, "classification", True, 1e-4),
    ("facenet", imagenet, _CROP, _FARFADE, 56_876_418, 720_319_008, "classification", True, 1e-4),
    ("sos", imagenet, _CROP, _ZHANG, 56_888_709, 720_331_296, "classification", True, 1e-4),
    ("memnet", imagenet, _CROP, _KHOSLA, 56_872_321, 720_314_912, "regression", True, 1e-5),
    ("scenenet", imagenet, _CROP, _PLACES, 57_708_109, 721_150_496, "classification", True, 1e-4),
    ("emotionnet", imagenet, _IMAGE, _VGG_S, 98_840_199, 2_633_640_992, "classification", True, 1e-4),
    ("googlenet", imagenet, _IMAGE, _ZHANG_INCEPTION, 5_978_677, 1_581_652_992, "classification", True, 1e-3),
    ("tinyyolo", mobile, _GRID, _TINY, 16_169_273, 3_537_437_696, "regression", True),
)
"""Name, which is also that of the function that builds it, its module, and the other fields of its row."""
NETWORKS = {name: ZooNetwork(name, getattr(module, name), *row) for name, module, *row in _ROWS}


def network(name: str) -> ZooNetwork:
    """Return a row of the zoo by name.

    Raises:
        InputError: there is no such network; the hint names the nearest.
    """
    if name not in NETWORKS:
        listed = f"the zoo has {', '.join(NETWORKS)}"
        hint = nearest(name, NETWORKS, listed=listed, prefix=PREFIX)
        raise InputError(f"there is no network {name!r} in the zoo", hint)
    return NETWORKS[name]


def weightless(name: str) -> onnx.ModelProto:
    """Return the graph of a network, batch size open (``batch``), weights with shape and type but without data.

    Raises:
        InputError: There is no such network.
    """
    from edgetune.workloads.graph_builder import GraphBuilder

    row = network(name)
    graph = GraphBuilder(name)
    values = [graph.input(item.name, ("batch", *item.shape), item.dtype) for item in row.inputs]
    return graph.model(row.build(graph, *values), {NETWORK_KEY: name})


def with_weights(model: onnx.ModelProto, seed: int = 0) -> onnx.ModelProto:
    """Return a copy of a model in which every weight without data is drawn from a seed; other weights do not change.

    The data depend on the seed and the weight's name alone: the same on every machine and in every process.
    """
    from edgetune.workloads import initial_weights

    filled = onnx.ModelProto()
    filled.CopyFrom(model)
    for tensor in filled.graph.initializer:
        if not initial_weights.has_data(tensor):
            initial_weights.fill(tensor, seed)
    return filled


def export(name: str, path: Path | str, batch_size: int | None = None, seed: int = 0) -> None:
    """Write a network with weights as an ONNX file; weights above 1.5 GB are in ``<file>.data`` beside it.

    Args:
        name: Name in the zoo.
        path: The file to write.
        batch_size: Fixed number of samples; left open as ``batch`` when ``None``.
        seed: Seed of the weights.

    Raises:
        InputError: There is no such network, or the file cannot be written.
    """
    from edgetune.workloads.model_storage import save_model

    model = with_weights(weightless(name), seed)
    if batch_size is not None:
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.shape.dim[0].dim_value = batch_size
    save_model(model, Path(path))


def load(reference: str) -> Workload:
    """Return the workload named ``zoo:NAME``.

    Raises:
        InputError: there is no such network.
    """
    name = network(reference.removeprefix(PREFIX)).name
    return Workload(reference, name, "zoo", None, _hash(name))


@cache
def _hash(name: str) -> str:
    """Return the hash of a network's definition: its graph and the shapes of its weights."""
    return hashlib.sha256(weightless(name).SerializeToString(deterministic=True)).hexdigest()


KIND = WorkloadKind(load, (PREFIX,), task="infer")
