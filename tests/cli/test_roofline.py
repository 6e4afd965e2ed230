"""``edgetune roofline ops``: the ledger first, totals, operators; a file of the pipeline; refusals."""

import json
import subprocess
import sys

import pytest
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.ops import OpsTable
from edgetune.cli.roofline_report import _of_roof_words

RESNET = ("roofline", "ops", "zoo:resnet18")


@pytest.fixture
def odd(tmp_path):
    """A model with an operator that nobody knows beside one that everybody does."""
    import onnx
    from onnx import TensorProto, helper

    def value(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 8])

    nodes = [
        helper.make_node("Relu", ["x"], ["y"], name="relu"),
        helper.make_node("Mystery", ["y"], ["z"], name="odd", domain="nowhere"),
    ]
    graph = helper.make_graph(nodes, "odd", [value("x")], [value("z")], value_info=[value("y")])
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("nowhere", 1)]
    path = tmp_path / "odd.onnx"
    onnx.save(helper.make_model(graph, opset_imports=domains), path)
    return str(path)


def test_the_ledger_comes_first_then_totals_then_operators(edgetune):
    ended = edgetune(*RESNET)
    assert (ended.code, ended.err) == (0, "")
    places = [
        ended.out.index(word) for word in ("ledger", "zero by definition", "totals", "intensity", "FLOP/byte\nConv")
    ]
    assert places == sorted(places)
    assert "1.814 GMAC" in ended.out  # the published 1.814 GMAC of ResNet-18
    assert "11.69 M" in ended.out


def test_by_class_and_by_node(edgetune):
    assert "elementwise" in edgetune(*RESNET, "--by", "class").out
    nodes = edgetune(*RESNET, "--by", "node").out
    assert "layer4.1.conv2" in nodes
    assert "layer4.1.conv2" not in edgetune(*RESNET).out


def test_training_tells_phases_apart(edgetune):
    out = edgetune(*RESNET, "--task", "train", "--batch-size", "4").out
    assert "resnet18 train, batch size 4, fp32" in out
    assert {"forward", "backward", "optimiser"} <= set(out.split())


def test_json_adds_up(edgetune):
    answer = json.loads(edgetune(*RESNET, "--json", "--by", "class").out)
    assert [entry["ledger"] for entry in answer["ledger"]] == ["modelled", "zero", "unmodelled"]
    assert sum(entry["share"] for entry in answer["ledger"]) == pytest.approx(1)
    assert sum(part["macs"] for part in answer["rows"]) == answer["totals"]["macs"]
    totals = answer["totals"]
    assert totals["intensity_flop_per_byte"] == pytest.approx(totals["flops"] / totals["bytes_moved"])
    assert (answer["file"], answer["parameters"]) == (None, 11689512)


def test_half_precision_halves_the_weights(edgetune):
    full, half = (json.loads(edgetune(*RESNET, "--json", "--precision", p).out)["totals"] for p in ("fp32", "fp16"))
    assert half["flops"] == full["flops"]
    assert half["weight_bytes"] == pytest.approx(full["weight_bytes"] / 2)


def test_the_file_holds_every_operator_and_shows_well(edgetune, tmp_path):
    target = tmp_path / "ops.parquet"
    ended = edgetune(*RESNET, "--batch-size", "16", "-o", str(target))
    assert ended.err == f"wrote {target}\n"
    table = io.read(OpsTable, str(target))
    assert (table.workload, table.task, table.batch_size, len(table.rows)) == ("resnet18", "infer", 16, 69)
    shown = edgetune("show", str(target))
    assert shown.code == 0
    assert "ops version 1, made " in shown.out
    assert ended.out in shown.out
    assert edgetune(*RESNET, "-o", str(target), "--quiet").err == ""


def test_a_dash_is_the_file_itself(tmp_path):
    done = subprocess.run([sys.executable, "-m", "edgetune", *RESNET, "-o", "-"], capture_output=True, check=True)
    assert done.stdout.startswith(b"PAR1")
    assert io.from_bytes(done.stdout, kind="ops", name="pipe").workload == "resnet18"
    assert done.stderr == b""


def test_an_unknown_operator_is_in_the_ledger_and_refused_when_strict(edgetune, odd, tmp_path):
    ended = edgetune("roofline", "ops", odd)
    assert ended.code == 0
    assert "50.0%  Mystery" in ended.out
    assert "lower bounds" in ended.out
    target = tmp_path / "ops.parquet"
    strict = edgetune("roofline", "ops", odd, "--strict", "-o", str(target))
    assert_two_lines(strict, 2)
    assert "Mystery" in strict.lines[0]
    assert not target.exists()
    assert edgetune(*RESNET, "--strict").code == 0


BAD = {
    "an unknown network": ("roofline", "ops", "zoo:resnet19"),
    "a file that is not there": ("roofline", "ops", "nowhere.onnx"),
    "an unknown task": (*RESNET, "--task", "learn"),
    "an unknown grouping": (*RESNET, "--by", "operator"),
    "a batch of none": (*RESNET, "--batch-size", "0"),
    "an unknown precision": (*RESNET, "--precision", "fp23"),
    "an unknown dimension": (*RESNET, "--dim", "sequence=3"),
    "a folder that is not there": (*RESNET, "-o", "/nowhere/ops.parquet"),
    "an unknown subcommand": ("roofline", "fit"),
}


@pytest.mark.parametrize("words", BAD.values(), ids=BAD)
def test_bad_requests_are_two_lines_and_2(edgetune, words):
    assert_two_lines(edgetune(*words), 2)


def test_alone_it_says_what_there_is(edgetune):
    ended = edgetune("roofline")
    assert ended.code == 0
    assert "ops" in ended.out
    assert "Measure the peaks of a device" in ended.out


def test_many_times_the_least_time_is_no_memory_bound(edgetune):
    ended = edgetune("roofline", "zoo:squeezenet", "--device", "twin:orin-agx", "--batch-sizes", "1,16")
    assert ended.code == 0, ended.err
    first, second = (line.split() for line in ended.out.splitlines() if line.split()[:1] in (["1"], ["16"]))
    assert first[-2:] == ["host-bound", "static-bound"]
    assert second[-2:] == ["memory-bound", "memory-bound"]
    assert "10.3 times the least time: launching kernels and the host bound it" in ended.out


def test_a_share_of_the_roof_below_one_percent_is_not_nothing():
    assert [_of_roof_words(share) for share in (1 / 226, 0.1, 1.04, 1.2)] == ["0.44%", "10%", "104%", "above"]
