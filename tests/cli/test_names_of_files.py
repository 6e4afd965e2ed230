"""Names that are no UTF-8, that look like networks of the zoo or devices, and files that a dry run leaves alone."""

import json
import os
import sys
from pathlib import Path

import pytest
import yaml
from chain_inputs import small_network
from command_line import assert_two_lines
from hostile import assert_harmless

from edgetune.artifacts import io
from edgetune.artifacts.files import as_found, storable
from edgetune.workloads.resolve import resolve

BYTE = b"\xff".decode(errors="surrogateescape")
MARKS = """
open("ran", "a").close()
def make(batch_size):
    return lambda: None
"""
CODE = ("train.py", "--device", "host", "--dry-run")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    small_network(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def told(edgetune_raw):
    """Run a command that works and shows nothing harmful; return its standard output."""

    def run(*words):
        ended = edgetune_raw(*words)
        assert ended.code == 0, ended.err
        assert_harmless(ended.out + ended.err)
        return ended.out

    return run


def test_a_table_and_a_plan_whose_names_are_not_utf8_are_read_by_the_commands_after(told, edgetune_raw):
    table, plan = f"table-{BYTE}.parquet", f"plan-{BYTE}.yaml"
    os.rename("small.onnx", f"net-{BYTE}.onnx")
    options = ("--device", "host", "--modes", "as-found", "--minibatches", "3")
    measure = ("profile", f"net-{BYTE}.onnx", *options, "-o", table)
    told(*measure, "-b", "1")
    assert "has these points already" in edgetune_raw(*measure, "-b", "1").err
    assert {row.workload for row in io.read_profile(table).rows} == {r"net-\xff"}
    told("search", table, "--latency-budget", "1s", "--arrival-rate", "5/s", "-o", plan)
    shown = yaml.safe_load(told("show", plan))
    assert shown["inputs"]["workload"]["reference"] == r"net-\xff.onnx"
    assert json.loads(told("show", plan, "--json")) == shown
    told("show", table)
    told("show", table, "--plot", f"figure-{BYTE}.svg")
    told("show", table, "-o", f"table-{BYTE}.json")
    assert r"recorded:table-\xff.parquet" in told("device", f"recorded:{table}")
    told("interleave", plan, "--train", "train.py", "--arrivals", "uniform:5", "--dry-run", "--device", "host")
    assert {name for name in os.listdir(".") if "partial" in name} == set()


def test_a_name_that_was_copied_from_a_message_is_found(told):
    Path(f"t-{BYTE}.csv").write_text(
        "workload,task,batch_size,gpu_mhz,minibatch_s\nnet,train,1,306,0.1\n", encoding="utf-8"
    )
    assert "net train" in told("show", r"t-\xff.csv")
    Path(r"t-\xff.csv").write_text(
        "workload,task,batch_size,gpu_mhz,minibatch_s\nother,train,1,306,0.1\n", encoding="utf-8"
    )
    assert "other train" in told("show", r"t-\xff.csv")
    assert resolve(f"train{BYTE}.py" if os.rename("train.py", f"train{BYTE}.py") else r"train\xff.py").path is not None


def test_stored_names_are_unicode_and_others_stay():
    assert storable(f"m-{BYTE}\ud800") == r"m-\xff\ud800"
    for name in ("model.onnx", r"C:\xff", "\u4e2d\u6587", ""):
        assert storable(name) == name
        assert as_found(name) == name


@pytest.mark.parametrize("name", ["zoo:squeezenet", "zoo:x"])
def test_no_folder_or_file_shadows_a_network_of_the_zoo(edgetune_raw, told, name):
    told("schedule", "prepare", "small.onnx", "-o", "prepared")
    os.rename("prepared/small", name)
    ended = edgetune_raw("schedule", "profile", name, "--dry-run", "--json")
    if name == "zoo:x":
        assert_two_lines(ended, 2)
        assert "no network 'x' in the zoo" in ended.lines[0]
    else:
        assert "small" not in ended.out
    assert "small" in told("schedule", "profile", f"./{name}", "--dry-run")


def test_no_folder_or_file_shadows_a_device_or_standard_input(edgetune_raw, told, monkeypatch):
    Path("twin:orin-agx").mkdir()
    Path("host").write_text("workload,task,batch_size,gpu_mhz,minibatch_s\nnet,train,1,306,0.1\n", encoding="utf-8")
    os.rename("host", "-")
    assert "SIMULATED" in told("device", "twin:orin-agx")
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input" in edgetune_raw("show", "-").err
    assert "net train" in told("show", "./-")


@pytest.mark.parametrize(
    "line",
    [
        ("profile", *CODE),
        ("profile", *CODE, "--json"),
        ("search", *CODE, "--batch-sizes", "1,2"),
        ("search", "small.onnx", "--kind", "train+infer", "--background", "train.py", "--background-batch", "2",
         "--batch-sizes", "1", "--arrival-rate", "5/s", "--latency-budget", "1s", *CODE[1:]),
        ("interleave", "--infer", "small.onnx", "--train", "train.py", "--arrivals", "uniform:5", "--latency-budget",
         "1s", "--handler", "handler.py", *CODE[1:]),
    ],
    ids=lambda line: " ".join(line[:2]),
)  # fmt: skip
def test_a_dry_run_runs_no_code_of_a_python_file(told, line):
    Path("train.py").write_text(MARKS, encoding="utf-8")
    Path("handler.py").write_text(MARKS, encoding="utf-8")
    out = told(*line)
    assert not Path("ran").exists()
    if line[0] == "profile":
        assert "its code is not run" in out
