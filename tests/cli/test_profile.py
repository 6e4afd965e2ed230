"""``edgetune profile`` on the twin and the host: what it prints, keeps, resumes and refuses."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
import yaml
from command_line import assert_two_lines
from onnx import TensorProto, helper, numpy_helper

from edgetune.artifacts import io

TWIN = ("profile", "zoo:squeezenet", "--task", "infer", "--device", "twin:orin-agx")
MODES = ("--modes", "gpu_mhz=318:1300:3")


@pytest.fixture(autouse=True)
def own_state(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_a_table_is_written_and_summed_up(edgetune, tmp_path):
    target = tmp_path / "p.parquet"
    ended = edgetune(*TWIN, *MODES, "--batch-sizes", "1,4", "-o", str(target))
    assert (ended.code, ended.out) == (0, "")
    assert "SIMULATED" in ended.err
    profile = io.read_profile(str(target))
    assert [(row.batch_size, row.gpu_mhz) for row in profile.rows] == [
        (batch, clock) for batch in (1, 4) for clock in (318.75, 828.75, 1300.5)
    ]
    assert profile.header.simulated
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["p.parquet"]  # the journal is gone


def test_quiet_still_says_simulated_and_nothing_else(edgetune, tmp_path):
    ended = edgetune(*TWIN, "-o", str(tmp_path / "p.parquet"), "--quiet")
    assert ended.err.splitlines() == ["SIMULATED: these figures come from a model, not from a device."]


def test_the_same_command_again_measures_nothing(edgetune, tmp_path):
    target = tmp_path / "p.parquet"
    edgetune(*TWIN, "-o", str(target))
    before = target.read_bytes()
    again = edgetune(*TWIN, "-o", str(target))
    assert again.code == 0
    assert "has these points already" in again.err
    assert target.read_bytes() == before
    fresh = edgetune(*TWIN, "-o", str(target), "--fresh")
    assert "has these points already" not in fresh.err
    assert fresh.code == 0


def test_dry_run_says_points_time_and_energy(edgetune, tmp_path):
    target = tmp_path / "p.parquet"
    ended = edgetune(*TWIN, *MODES, "-o", str(target), "--dry-run")
    assert ended.code == 0
    assert " J (" in ended.out or "kJ (" in ended.out
    assert not target.exists()
    machine = json.loads(edgetune(*TWIN, *MODES, "--dry-run", "--json").out)
    assert machine["points"] == 3
    assert machine["energy_j"] > 0


def test_profile_pipes_into_search(tmp_path):
    pipe = (
        "edgetune profile zoo:squeezenet --task infer --batch-sizes 1 --device twin:orin-agx"
        " --modes gpu_mhz=318:1300:5,mem_mhz=3199 | edgetune search - --power-budget 40W --objective throughput"
    )
    pipe = pipe.replace("edgetune ", f"{sys.executable} -m edgetune ")
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {pipe}"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    plan = yaml.safe_load(done.stdout)
    assert plan["measured"]["power_w"] <= 40
    assert plan["conditions"]["simulated"] is True
    assert plan["inputs"]["workload"]["name"] == "squeezenet"
    assert list(tmp_path.glob("*.parquet")) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_loses_nothing(tmp_path):
    command = f"{sys.executable} -m edgetune {' '.join(TWIN)} -q"
    full = subprocess.run(["bash", "-c", f"{command} -o - > /dev/full"], cwd=tmp_path, capture_output=True, check=False)
    assert full.returncode == 2
    assert b"No space left" in full.stderr
    assert list((tmp_path / "state").rglob("*.journal"))
    again = subprocess.run(["bash", "-c", f"{command} -o - > p"], cwd=tmp_path, capture_output=True, check=False)
    assert again.returncode == 0
    assert io.read_profile(str(tmp_path / "p")).header.conditions["points_resumed"] == 1


BAD = {
    "no such network": ["zoo:squeezenot", "--task", "infer"],
    "not a model": ["{folder}/text.onnx", "--task", "infer"],
    "no task": ["kernel:matmul:256"],
    "batch of zero": ["zoo:squeezenet", "--task", "infer", "--batch-sizes", "1,0"],
    "no such knob": ["zoo:squeezenet", "--task", "infer", "--modes", "gpu_mzh=300"],
    "cooling without a thermometer": ["zoo:squeezenet", "--task", "infer", "--cool-to", "50C"],
    "an unknown precision": ["zoo:squeezenet", "--task", "infer", "--precision", "fp23"],
    "a dimension given twice": ["zoo:squeezenet", "--task", "infer", "--dim", "x=1", "--dim", "x=2"],
    "a folder as output": ["zoo:squeezenet", "--task", "infer", "-o", "{folder}"],
    "an output that cannot be": ["zoo:squeezenet", "--task", "infer", "-o", "/proc/p.parquet"],
}


@pytest.mark.parametrize("words", BAD.values(), ids=BAD)
def test_bad_requests_are_two_lines_and_2(edgetune, tmp_path, words):
    (tmp_path / "text.onnx").write_text("not a model")
    ended = edgetune("profile", *(w.format(folder=tmp_path) for w in words), "--device", "twin:orin-agx", "--quiet")
    assert_two_lines(ended, 2)


@pytest.mark.parametrize("device", ["nvidia:99", "jetson"])
def test_a_device_that_is_not_here_is_4(edgetune, device):
    assert_two_lines(edgetune("profile", "zoo:squeezenet", "--task", "infer", "--device", device), 4)


TRAINING = {
    "raises": "def make(batch_size):\n    raise ValueError('no data here')\n",
    "returns no step": "def make(batch_size):\n    return 3\n",
    "never returns": "import time\ndef make(batch_size):\n    return lambda: time.sleep(3600)\n",
}


@pytest.mark.parametrize("source", TRAINING.values(), ids=TRAINING)
def test_a_bad_training_file_is_two_lines(edgetune, tmp_path, source):
    path = tmp_path / "train.py"
    path.write_text(source)
    target = tmp_path / "p.parquet"
    limits = ("--quiet", "--point-timeout", "3s")
    ended = edgetune("profile", str(path), "--task", "train", "--device", "host", "-o", str(target), *limits)
    assert_two_lines(ended, 2)
    assert not target.exists()


HANGS_AT_8 = """
import time
def make(batch_size):
    def step():
        if batch_size == 8:
            time.sleep(3600)
        time.sleep(0.001)
    return step
"""


def test_a_hung_point_costs_one_point_and_ends_with_5(edgetune, tmp_path):
    (tmp_path / "train.py").write_text(HANGS_AT_8)
    target = tmp_path / "p.parquet"
    ended = edgetune(
        "profile", str(tmp_path / "train.py"), "--task", "train", "--device", "host", "-o", str(target),
        "--batch-sizes", "1,8,2", "--point-timeout", "3s", "--minibatches", "5",
    )  # fmt: skip
    assert ended.code == 5, ended.err
    rows = io.read_profile(str(target)).rows
    assert {row.batch_size: row.status for row in rows} == {1: "ok", 8: "failed", 2: "ok"}


SLOW = textwrap.dedent("""
    import time
    def make(batch_size):
        def step():
            time.sleep(0.05 if batch_size == 1 else 3600)
        return step
""")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_a_signal_in_the_middle_keeps_what_was_done(edgetune, tmp_path, number, code):
    script = tmp_path / "train.py"
    script.write_text(SLOW)
    target = tmp_path / "p.parquet"
    argv = ["profile", str(script), "--task", "train", "--device", "host", "--minibatches", "5", "-o", str(target)]
    command = [sys.executable, "-m", "edgetune", *argv, "--batch-sizes", "1,2", "--verbose"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        while not line.startswith("1 of 2"):
            assert line, "ended before its first point"
            line = process.stderr.readline()
        process.send_signal(number)
        rest = process.stderr.read()
    assert process.returncode == code
    kept = f"edgetune show {tmp_path / '.p.parquet.journal'} prints it"
    assert rest == f"stopped; what was measured is kept, and the same command resumes; {kept}\n"
    assert not target.exists()
    script.write_text(SLOW)
    resumed = edgetune(*argv, "--batch-sizes", "1")
    assert resumed.code == 0
    assert "resuming: 1 of 1 points are done; --fresh starts over" in resumed.err


# The largest batch size


@pytest.mark.slow
def test_largest_batch_within_a_budget_is_measured(edgetune, tmp_path):
    """The network takes much memory and little time: a sample and its answer are 1 MiB each."""
    table, network = tmp_path / "p.parquet", tmp_path / "wide.onnx"
    graph = onnx.parser.parse_graph("wide (float[n,262144] x) => (float[n,262144] y) { y = Relu(x) }")
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), network)
    ended = edgetune(
        "profile", str(network), "--device", "host", "--batch-sizes", "4,max", "--memory-budget", "300MiB",
        "--minibatches", "5", "-o", str(table),
    )  # fmt: skip
    assert ended.code == 0, ended.err
    small, large = io.read_profile(str(table)).rows
    assert small.batch_size == 4 < large.batch_size
    assert small.memory_peak_bytes < large.memory_peak_bytes < 1.1 * (300 << 20)


# Models and training files that cannot be used


def half_known(path):
    nodes = [helper.make_node("Relu", ["x"], ["z"]), helper.make_node("Frob", ["z"], ["y"], domain="elsewhere")]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ("batch", 4)) for name in "xy"]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("elsewhere", 1)]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:])
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    return str(path)


def test_an_unknown_operator_on_the_twin_is_a_warning_in_the_table_and_in_the_plan(edgetune, tmp_path):
    model, table = half_known(tmp_path / "net.onnx"), tmp_path / "p.parquet"
    live = (model, "--task", "infer", "--device", "twin:orin-agx")
    ended = edgetune("profile", *live, "-o", str(table))
    assert ended.code == 0
    assert "unmodelled-operators" in ended.err
    plan = edgetune("search", *live, "--batch-sizes", "1", "--objective", "throughput").out
    assert "unmodelled-operators" in plan


def test_a_live_search_in_which_nothing_works_is_bad_input_with_its_own_hint(edgetune, tmp_path):
    path = tmp_path / "train.py"
    path.write_text("def make(batch_size):\n    raise ValueError('no data')\n")
    words = ("search", str(path), "--task", "train", "--device", "host", "--batch-sizes", "1,2")
    ended = edgetune(*words, "--objective", "throughput", "--strategy", "exhaustive")
    assert_two_lines(ended, 2)


# The batch: told, recorded, set with --batch-axis, and refused where there is none

HOST = ("--task", "infer", "--device", "host", "--minibatches", "3")


@pytest.fixture(autouse=True)
def own_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def written(name, nodes, inputs, weights, kind=TensorProto.FLOAT):
    graph = helper.make_graph(
        [helper.make_node(op, names.split(), [made], **attributes) for op, names, made, attributes in nodes],
        name,
        [helper.make_tensor_value_info(each, kind, shape) for each, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, each) for each, array in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), f"{name}.onnx")
    return Path(f"{name}.onnx").name


def weights(*shape):
    return np.full(shape, 0.01, np.float32)


def points():
    nodes = [
        ("MatMul", "x w", "a", {}), ("Relu", "a", "b", {}), ("MatMul", "b v", "c", {}),
        ("ReduceMax", "c", "y", {"axes": [0], "keepdims": 0, "name": "pool"}),
    ]  # fmt: skip
    return written("points", nodes, {"x": [4096, 3]}, {"w": weights(3, 64), "v": weights(64, 32)})


def test_a_network_without_a_batch_is_measured_as_exported(edgetune):
    ended = edgetune("profile", points(), *HOST, "-o", "p.parquet")
    assert ended.code == 0, ended.err
    assert "points: no batch axis, measured as exported, one run a minibatch" in ended.err
    header = io.read_profile("p.parquet").header
    assert header.inputs["workload"]["batch"] == {
        "axes": {}, "exported": 1, "why": "node 'pool' (ReduceMax) combines what lies along axis 0 of 'x'"
    }  # fmt: skip
    assert header.conditions["fed"] == [
        {"name": "x", "dtype": "float32", "shape": [4096, 3], "values": "uniform in [0, 1)"}
    ]
    assert [row.batch_size for row in io.read_profile("p.parquet").rows] == [1]


@pytest.mark.parametrize("command", [("profile", "-b", "4", *HOST), ("schedule", "prepare", "-b", "4")])  # fmt: skip
def test_another_batch_size_is_refused_where_there_is_no_batch(edgetune, command):
    words = command[:1] if command[0] == "profile" else command[:2]
    ended = edgetune(*words, points(), *command[len(words) :])
    assert_two_lines(ended, 2)


def test_the_batch_axis_belongs_to_the_request(edgetune):
    network = written("relu", [("Relu", "x", "y", {})], {"x": [8, 16]}, {})
    first = edgetune("profile", network, *HOST, "-o", "p.parquet")
    assert "batch axis 0, exported for 8, measured at 8" in first.err
    again = edgetune("profile", network, *HOST, "-o", "p.parquet", "--batch-axis", "none")
    assert again.code == 2
    assert "no batch axis, measured as exported" in again.err
    fresh = edgetune("profile", network, *HOST, "-o", "p.parquet", "--batch-axis", "x=1", "--fresh")
    assert "batch axis 1, exported for 16, measured at 16" in fresh.err
    assert io.read_profile("p.parquet").header.inputs["workload"]["batch_axis"] == "x=1"
