"""What an answer is held against after a run: by how much it may differ, and when nobody can tell."""

from __future__ import annotations

from pathlib import Path

import live_networks
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from edgetune.errors import InputError, PartialError
from edgetune.stages.schedule.exchange import read, write
from edgetune.stages.schedule.verification import Verification, _sample
from edgetune.workloads.partition.check import PrepareOptions
from edgetune.workloads.partition.prepare import prepare
from edgetune.workloads.prepared import Prepared
from edgetune.workloads.resolve import resolve


def prepared_of(folder: Path, nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto]) -> Prepared:
    given, answered = live_networks.value("x", 1, 64), live_networks.value("y", 1, 64)
    graph = helper.make_graph(nodes, "network", [given], [answered], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(folder / "network.onnx"))
    return prepare(resolve(str(folder / "network.onnx")), PrepareOptions(), folder / "prepared")


def eight_bits(folder: Path) -> Prepared:
    values = np.random.default_rng(0).integers(-127, 127, (64, 64)).astype(np.int8)
    weights = [numpy_helper.from_array(values, "w"), numpy_helper.from_array(np.float32(0.01), "scale")]
    return prepared_of(
        folder,
        [helper.make_node("DequantizeLinear", ["w", "scale"], ["d"]), helper.make_node("MatMul", ["x", "d"], ["y"])],
        weights,
    )


def full(folder: Path) -> Prepared:
    return prepared_of(folder, [helper.make_node("MatMul", ["x", "w"], ["y"])], [live_networks.weight("w", 64, 64)])


def by_chance(folder: Path) -> Prepared:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("RandomNormalLike", ["a"], ["noise"], dtype=TensorProto.FLOAT),
        helper.make_node("Add", ["a", "noise"], ["y"]),
    ]
    return prepared_of(folder, nodes, [live_networks.weight("w", 64, 64)])


def answer_off_by(prepared: Prepared, verification: Verification, share: float) -> float | None:
    """Return the difference of an answer that is off by a share of its largest value."""
    folder = verification.sample("network", prepared, None)
    session = ort.InferenceSession(str(prepared.folder / prepared.whole["external"]))
    (answer,) = session.run(["y"], {"x": np.asarray(read(folder, "input", 1)[0])})
    write(folder, "answer", [answer * np.float32(1 + share)])
    return verification.difference("network", prepared)


def test_weights_of_eight_bits_may_differ_by_what_prepare_allows_them(tmp_path: Path) -> None:
    with Verification() as verification:
        difference = answer_off_by(eight_bits(tmp_path), verification, 0.01)
        assert difference is not None
        assert difference == pytest.approx(0.01, rel=0.01)
        verification.refuse({"network": difference})
        with pytest.raises(PartialError, match=r"network by 0\.03 of its largest, 0\.02 allowed"):
            verification.refuse({"network": 0.03})


def test_weights_of_single_precision_may_not(tmp_path: Path) -> None:
    with Verification() as verification:
        difference = answer_off_by(full(tmp_path), verification, 0.01)
        assert difference is not None
        with pytest.raises(PartialError, match=r"network by 0\.01 of its largest, 0\.0001 allowed"):
            verification.refuse({"network": difference})


def test_answers_of_a_random_network_cannot_be_verified(tmp_path: Path) -> None:
    with Verification() as verification:
        assert answer_off_by(by_chance(tmp_path), verification, 0.0) is None


def test_an_input_that_cannot_be_made_up_is_to_be_given_in_the_jobs_file(tmp_path: Path) -> None:
    """A run of jobs has no ``--inputs``."""
    graph = parser.parse_graph(
        "net (float[1,4] x, int64[1] count) => (float[1,4] y, float[n] made)"
        "{ made = ConstantOfShape(count) y = Relu(x) }"
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    options = PrepareOptions(optimise="basic", dimensions={"made:0": 7})
    prepared = prepare(resolve(str(path)), options, tmp_path / "made")
    with pytest.raises(InputError, match="'count' decides how much") as refused:
        _sample(prepared, {"inputs": None, "seed": 0})
    assert "inputs: FILE.npz" in refused.value.hint
    assert "--inputs" not in refused.value.hint
