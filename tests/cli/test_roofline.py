"""``edgetune roofline ops``: the ledger first, totals, operators; a file of the pipeline; refusals."""

import json
import sys

import pytest
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.ops import OpsTable
from edgetune.cli.main import run

RESNET = ("roofline", "ops", "zoo:resnet18")


def test_the_ledger_comes_first_then_totals_then_operators(edgetune):
    ended = edgetune(*RESNET)
    assert (ended.code, ended.err) == (0, "")
    places = [
        ended.out.index(word) for word in ("ledger", "zero by definition", "totals", "intensity", "FLOP/byte\nConv")
    ]
    assert places == sorted(places)
    assert "1.814 GMAC" in ended.out  # the published 1.814 GMAC of ResNet-18
    assert "11.69 M" in ended.out


def test_json_adds_up(edgetune):
    answer = json.loads(edgetune(*RESNET, "--json", "--by", "class").out)
    assert [entry["ledger"] for entry in answer["ledger"]] == ["modelled", "zero", "unmodelled"]
    assert sum(entry["share"] for entry in answer["ledger"]) == pytest.approx(1)
    assert sum(part["macs"] for part in answer["rows"]) == answer["totals"]["macs"]
    totals = answer["totals"]
    assert totals["intensity_flop_per_byte"] == pytest.approx(totals["flops"] / totals["bytes_moved"])
    assert (answer["file"], answer["parameters"]) == (None, 11689512)


def test_the_file_holds_every_operator_and_shows_well(edgetune, tmp_path):
    target = tmp_path / "ops.parquet"
    ended = edgetune(*RESNET, "--batch-size", "16", "-o", str(target))
    assert ended.err == f"wrote {target}\n"
    table = io.read(OpsTable, str(target))
    assert (table.workload, table.task, table.batch_size, len(table.rows)) == ("resnet18", "infer", 16, 69)
    shown = edgetune("show", str(target))
    assert shown.code == 0
    assert ended.out in shown.out
    assert edgetune(*RESNET, "-o", str(target), "--quiet").err == ""


def test_a_dash_is_the_file_itself(capfdbinary):
    assert run((*RESNET, "-o", "-")) == 0
    sys.stdout.flush()
    out, err = capfdbinary.readouterr()
    assert io.from_bytes(out, kind="ops", name="pipe").workload == "resnet18"
    assert err == b""


BAD = {
    "an unknown task": (*RESNET, "--task", "learn"),
    "a batch of none": (*RESNET, "--batch-size", "0"),
    "a folder that is not there": (*RESNET, "-o", "/nowhere/ops.parquet"),
}


@pytest.mark.parametrize("words", BAD.values(), ids=BAD)
def test_bad_requests_are_two_lines_and_2(edgetune, words):
    assert_two_lines(edgetune(*words), 2)


def test_many_times_the_least_time_is_no_memory_bound(edgetune):
    ended = edgetune("roofline", "zoo:squeezenet", "--device", "twin:orin-agx", "--batch-sizes", "1,16")
    assert ended.code == 0, ended.err
    first, second = (line.split() for line in ended.out.splitlines() if line.split()[:1] in (["1"], ["16"]))
    assert first[-2:] == ["host-bound", "static-bound"]
    assert second[-2:] == ["memory-bound", "memory-bound"]
