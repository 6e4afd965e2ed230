"""The nine networks of the EdgeCaffe study against its tables: weights of every layer, their kinds, and sizes."""

import csv
import math
from collections import Counter
from pathlib import Path

import onnx
import pytest

from edgetune.workloads import zoo

# Cox (2020): storage of the weights, MB of 2**20 bytes (the sums of the study's files are that); convolutions and fully
# connected layers. Of GoogLeNet the study prints 22 and 2, its depth; the files it stored are 57 and 1.
PUBLISHED = {
    "agenet": (44, 3, 3),
    "gendernet": (44, 3, 3),
    "facenet": (217, 5, 3),
    "sos": (218, 5, 3),
    "googlenet": (23, 57, 1),
    "tinyyolo": (62, 9, 0),
    "emotionnet": (378, 5, 3),
    "memnet": (217, 5, 3),
    "scenenet": (221, 5, 3),
}
STUDY = Path(__file__).parents[2] / "../shared/data/edgecaffe/layer_bytes.csv"
LISTED = {
    "AgeNet": "agenet",
    "EmotionNet": "emotionnet",
    "FaceNet": "facenet",
    "GenderNet": "gendernet",
    "MemNet": "memnet",
    "SceneNet": "scenenet",
    "Salient_Object_Subitizing": "sos",
    "Salient_Object_Subitizing_google": "googlenet",
    "TinyYolo": "tinyyolo",
}


def kernels(name: str) -> list[onnx.TensorProto]:
    """Weights of convolutions and linear layers, in the order of the graph."""
    graph = zoo.weightless(name).graph
    read = {node.input[1] for node in graph.node if node.op_type in ("Conv", "Gemm")}
    return [tensor for tensor in graph.initializer if tensor.name in read]


def sizes_after(name: str, op: str) -> list[tuple[int, ...]]:
    """Shapes of one sample after each operator of a type."""
    graph = onnx.shape_inference.infer_shapes(zoo.weightless(name), strict_mode=True).graph
    shapes = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim[1:]) for v in graph.value_info}
    return [shapes[node.output[0]] for node in graph.node if node.op_type == op]


@pytest.mark.parametrize(("name", "published"), PUBLISHED.items())
def test_storage_and_layers_are_those_of_the_study(name, published):
    megabytes, convolutions, linear = published
    graph = zoo.weightless(name).graph
    assert sum(4 * math.prod(tensor.dims) for tensor in graph.initializer) / 2**20 == pytest.approx(megabytes, rel=0.02)
    ops = Counter(node.op_type for node in graph.node)
    assert (ops["Conv"], ops["Gemm"]) == (convolutions, linear)


@pytest.mark.skipif(not STUDY.exists(), reason="the study's table is not beside the repository")
@pytest.mark.parametrize(("theirs", "ours"), LISTED.items())
def test_every_layer_has_as_many_weights_as_the_study_stored(theirs, ours):
    with STUDY.open() as file:
        rows = [row for row in csv.DictReader(file) if row["network"] == theirs]
    stored = [int(row["number-of-paramters"]) for row in rows if not row["name"].endswith(("_bn", "_scale"))]
    assert [math.prod(tensor.dims) for tensor in kernels(ours)] == [count for count in stored if count]


@pytest.mark.parametrize(
    ("name", "sides"),
    [
        ("agenet", [28, 14, 7]),
        ("scenenet", [27, 13, 6]),
        ("emotionnet", [37, 17, 6]),  # the middle one is the first that differs if conv2 were padded
        ("tinyyolo", [208, 104, 52, 26, 13, 13]),
    ],
)
def test_poolings_leave_the_sizes_of_the_originals(name, sides):
    assert [shape[1:] for shape in sizes_after(name, "MaxPool")] == [(side, side) for side in sides]


def test_inceptions_leave_the_sizes_of_the_paper():
    # arXiv:1409.4842, table 1: output of inception 3a to 5b.
    channels = [256, 480, 512, 512, 512, 528, 832, 832, 1024]
    sides = [28, 28, 14, 14, 14, 14, 14, 7, 7]
    assert sizes_after("googlenet", "Concat") == [(c, s, s) for c, s in zip(channels, sides, strict=True)]


@pytest.mark.parametrize(
    ("name", "gmacs", "added"),
    [
        ("scenenet", 0.724, 4096 * 795),  # CaffeNet has 1000 classes
        ("googlenet", 1.58, 1024 * 995),
        ("tinyyolo", 6.97 / 2, -300 * 1024 * 13 * 13),  # darknet prints 6.97 BFLOP, for 20 classes: 125 outputs
    ],
)
def test_macs_agree_with_those_printed_for_the_originals(name, gmacs, added):
    assert zoo.NETWORKS[name].macs + added == pytest.approx(gmacs * 1e9, rel=0.005)


def test_normalisation_is_that_of_the_originals():
    def settings(name):
        nodes = [node for node in zoo.weightless(name).graph.node if node.op_type == "LRN"]
        return [{a.name: pytest.approx(onnx.helper.get_attribute_value(a)) for a in node.attribute} for node in nodes]

    caffe = {"size": 5, "alpha": 1e-4, "beta": 0.75, "bias": 1.0}
    assert settings("memnet") == settings("agenet") == settings("googlenet") == [caffe, caffe]
    assert settings("emotionnet") == [{"size": 5, "alpha": 5e-4, "beta": 0.75, "bias": 2.0}]
