"""``profile --python``, here the oldest on PATH, and ``--engine tensorrt``, on fakes of its libraries."""

import ast
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from chain_inputs import small_network
from command_line import assert_two_lines

from edgetune import manual
from edgetune.artifacts import io
from edgetune.artifacts.io import read_profile
from edgetune.devices.software import REMEDIES
from edgetune.workloads import foreign_python, foreign_python_worker, ort_session, script_hook
from edgetune.workloads.resolve import resolve
from edgetune.workloads.workload import RunOptions
from fakes import tensorrt

QUICK = ("--device", "host", "--minibatches", "10", "--fresh", "-o", "p.parquet")


def runs(python: str) -> bool:
    """Return whether ``python`` is one: pyenv leaves a name on PATH for each version, also for those not chosen."""
    return subprocess.run([python, "-c", "import json"], check=False, capture_output=True).returncode == 0


OLDEST = next(filter(runs, filter(None, (shutil.which(f"python3.{minor}") for minor in range(6, 20)))), sys.executable)
HOOK = Path(script_hook.__file__).with_name("sitecustomize.py")
NEWER = {"monotonic_ns", "time_ns", "removeprefix", "removesuffix", "capture_output", "dataclasses", "__future__"}
"""Names of the standard library that are newer than Python 3.6."""
TRAIN = """import sys, time
def make(batch_size):
    assert "edgetune" not in sys.modules
    def step():
        time.sleep(0.002 * batch_size)
    return step
"""
SCRIPT = "import time, edgetune\nwhile True:\n    time.sleep(0.005)\n    edgetune.step()\n"


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    small_network(tmp_path)
    model = onnx.load("small.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    onnx.save(model, "two.onnx")


def program(name: str, text: str) -> str:
    path = Path(name).resolve()
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def alone(*options: str) -> str:
    """Return this Python without the checkout on its path."""
    return program("alone", f'exec {sys.executable} {" ".join(options)} "$@"')


@pytest.mark.parametrize("path", [foreign_python.WORKER, HOOK])
def test_what_another_python_reads_is_of_python_3_6(path):
    tree = ast.parse(Path(path).read_text(), feature_version=(3, 6))
    for each in ast.walk(tree):
        names = {getattr(each, field, None) for field in ("attr", "arg", "module")}
        names |= {alias.name for alias in getattr(each, "names", ()) if isinstance(alias, ast.alias)}
        assert not names & NEWER
        if isinstance(each, ast.Subscript):
            assert getattr(each.value, "id", "") not in ("list", "dict", "tuple", "set")


@pytest.mark.parametrize(("source", "name"), [(TRAIN, "train.py"), (SCRIPT, "script.py")])
def test_a_file_and_a_script_run_in_the_oldest_python(edgetune, source, name):
    Path(name).write_text(source)
    ended = edgetune("profile", name, "--python", OLDEST, *QUICK)
    assert ended.code == 0, ended.err
    table = io.read_profile("p.parquet")
    assert min(table.rows[0].times_s) > 0.002
    found = subprocess.run([OLDEST, "--version"], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["Python", table.header.conditions["python"]]


def test_a_network_runs_on_the_onnx_runtime_of_the_other_python(edgetune):
    ort = pytest.importorskip("onnxruntime")
    other = alone("-I")
    ended = edgetune("profile", "small.onnx", "--task", "infer", "-b", "1,4", "--python", other, *QUICK)
    assert ended.code == 0, ended.err
    table = io.read_profile("p.parquet")
    assert [(row.batch_size, row.status) for row in table.rows] == [(1, "ok"), (4, "ok")]
    assert all(row.memory_peak_bytes for row in table.rows)
    conditions = table.header.conditions
    assert (conditions["python"], conditions["onnxruntime"]) == (platform.python_version(), ort.__version__)
    own = edgetune("profile", "small.onnx", "--task", "infer", "-b", "1,4", *QUICK[:-3], "-o", "p.parquet")
    assert_two_lines(own, 2)


class HereInstead:
    """The worker in this process."""

    def __init__(self, module, *, python):
        assert (module, python) == (foreign_python.WORKER, "there")

    def ask(self, command, *, deadline_s):
        if command["command"] == "run":
            return foreign_python_worker.run(self.step, command["minibatches"])
        self.step = foreign_python_worker.network(command)
        return {"ok": True}

    def close(self):
        pass


@pytest.mark.parametrize(("name", "batch_size"), [("small.onnx", 3), ("two.onnx", 4)])
def test_the_worker_runs_the_same_network_on_the_same_inputs(monkeypatch, name, batch_size):
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(foreign_python, "Child", HereInstead)
    options = RunOptions(python="there", threads=1, seed=7)
    steps = foreign_python.open_step(resolve(name), "infer", batch_size, options)
    (there,) = steps._child.step()
    (here,) = ort_session.open_step(resolve(name), "infer", batch_size, options)()
    np.testing.assert_array_equal(there, here)
    assert there.shape == (batch_size, 64)
    start_ns, end_ns = steps.times_ns(3)
    assert all(start <= end for start, end in zip(start_ns, end_ns, strict=True))


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: "/no/such/python", 2),
        (lambda: program("crash", "kill -SEGV $$"), 2),
        (lambda: program("other", "exit 0"), 2),
        (lambda: alone("-I", "-S"), 4),
    ],
)
def test_an_interpreter_that_cannot_run_the_network_is_refused(edgetune, make, code):
    ended = edgetune("profile", "small.onnx", "--task", "infer", "--python", make(), *QUICK)
    assert_two_lines(ended, code)


@pytest.mark.parametrize("jetpack", [4, 5])
def test_the_manual_says_how_to_get_a_python_for_edgetune_as_the_doctor_does(jetpack):
    assert all(command in manual.page("jetson") for command in REMEDIES[jetpack].commands)


# TensorRT: the child process imports fakes in place of the libraries, which compute nothing

TESTS = Path(__file__).parents[1]
SHIM = "import sys; sys.path.insert(0, {tests!r}); from fakes{name} as fake; sys.modules[__name__] = fake\n"


@pytest.fixture
def libraries(tmp_path, monkeypatch):
    """Let child processes import the fakes as ``tensorrt`` and ``cuda.bindings.driver``."""
    folder = tmp_path / "libraries"
    for module, name in (("tensorrt", " import tensorrt"), ("cuda/bindings/driver", ".tensorrt import cuda")):
        path = folder / f"{module}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SHIM.format(tests=str(TESTS), name=name))
    (folder / "cuda" / "bindings" / "__init__.py").write_text("")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


WORDS = ("profile", "zoo:squeezenet", "--engine", "tensorrt", "--device", "host", "--minibatches", "10")


def test_a_network_is_built_before_it_is_measured(edgetune, libraries, tmp_path):
    target = tmp_path / "net.parquet"
    words = (*WORDS, "--batch-sizes", "1,4", "--precision", "fp16", "-o", str(target))
    ended = edgetune(*words)
    assert ended.code == 0, ended.err
    assert "was built in" in ended.err
    table = read_profile(target)
    assert [row.batch_size for row in table.rows] == [1, 4]
    assert all(row.build_s > 0 and row.engine_bytes > 100 and row.minibatch_s > 0.0009 for row in table.rows)
    assert table.header.options["engine"] == "tensorrt"
    assert "built in" in edgetune("show", str(target)).out, "its own column"
    again = edgetune(*words, "--fresh")
    assert "was built earlier in" in again.err
    other = edgetune(*WORDS[:2], *WORDS[4:], "-o", str(target))
    assert_two_lines(other, 2)


def test_an_engine_file_is_measured_at_the_batch_it_was_built_for(edgetune, libraries, tmp_path):
    path = tmp_path / "net.engine"
    path.write_bytes(tensorrt.plan({"x": [[8, 3], "FLOAT"]}, {"y": [[8, 2], "FLOAT"]}))
    target = tmp_path / "net.parquet"
    ended = edgetune("profile", str(path), "--device", "host", "--minibatches", "10", "-o", str(target))
    assert ended.code == 0, ended.err
    assert "net: takes batch 8 only, measured at 8" in ended.err
    (row,) = read_profile(target).rows
    assert (row.batch_size, row.build_s, row.engine_bytes) == (8, None, path.stat().st_size)
    refused = edgetune("profile", str(path), "--device", "host", "--batch-sizes", "4", "-o", str(tmp_path / "o.csv"))
    assert_two_lines(refused, 2)
    path.write_bytes(path.read_bytes()[:-1])
    assert_two_lines(edgetune("profile", str(path), "--device", "host"), 2)
