"""``edgetune profile``: on the twin, which is quick; what it prints, keeps, resumes and refuses."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from statistics import median

import pytest
import yaml
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.row_figures import mean_minibatch_s

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


def test_json_names_the_file_and_the_rows(edgetune, tmp_path):
    target = tmp_path / "p.parquet"
    ended = edgetune(*TWIN, *MODES, "-o", str(target), "--json", "--quiet")
    answer = json.loads(ended.out)
    assert answer["file"] == str(target)
    assert [row["gpu_mhz"] for row in answer["rows"]] == [318.75, 828.75, 1300.5]
    assert answer["conditions"]["simulated"] is True


def test_dry_run_says_points_time_and_energy(edgetune, tmp_path):
    target = tmp_path / "p.parquet"
    ended = edgetune(*TWIN, *MODES, "-o", str(target), "--dry-run")
    assert ended.code == 0
    assert " J (" in ended.out or "kJ (" in ended.out
    assert not target.exists()
    machine = json.loads(edgetune(*TWIN, *MODES, "--dry-run", "--json").out)
    assert machine["points"] == 3
    assert machine["energy_j"] > 0


def test_rounds_are_rows_and_a_search_takes_the_median_of_their_means(edgetune, tmp_path):
    target = tmp_path / "p.parquet"
    words = (*TWIN[:-1], "twin:orin-agx?noise=on", "--interleave-repeats", "3", "-o", str(target))
    ended = edgetune(*words)
    assert ended.code == 0
    profile = io.read_profile(str(target))
    assert [row.round for row in profile.rows] == [1, 2, 3]
    assert profile.header.conditions["rounds"]["count"] == 3
    plan = edgetune("search", str(target), "--objective", "throughput", "--json", "--quiet")
    assert json.loads(plan.out)["measured"]["minibatch_s"] == median(mean_minibatch_s(row) for row in profile.rows)
    assert "has these points already" in edgetune(*words).err
    assert_two_lines(edgetune(*TWIN, "-o", str(target)), 2)  # another request


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


def test_a_table_measured_from_other_inputs_of_the_same_name_is_not_the_answer(edgetune, tmp_path):
    import numpy as np

    from edgetune.workloads.zoo import NETWORKS

    inputs, target = tmp_path / "inputs.npz", tmp_path / "p.parquet"
    words = ("profile", "zoo:lstm", "--task", "infer", "--device", "host", "--minibatches", "2", "-o", str(target))
    spec = NETWORKS["lstm"].inputs[0]
    name, shape = spec.name, (1, *spec.shape)
    np.savez(inputs, **{name: np.zeros(shape, dtype=np.int64)})
    assert edgetune(*words, "--inputs", str(inputs)).code == 0
    assert "has these points already" in edgetune(*words, "--inputs", str(inputs)).err
    np.savez(inputs, **{name: np.ones(shape, dtype=np.int64)})
    ended = edgetune(*words, "--inputs", str(inputs))
    assert_two_lines(ended, 2)


def test_without_a_task_a_network_infers_and_a_python_file_trains(edgetune, tmp_path):
    target = tmp_path / "p.parquet"
    ended = edgetune("profile", "zoo:squeezenet", "--device", "twin:orin-agx", "-o", str(target))
    assert ended.code == 0, ended.err
    assert [row.task for row in io.read_profile(str(target)).rows] == ["infer"]
    (tmp_path / "trainer.py").write_text("def make(batch_size):\n    return lambda: sum(range(1000)) * 0.0\n")
    ended = edgetune("profile", str(tmp_path / "trainer.py"), "--device", "host", "--minibatches", "3", "--dry-run")
    assert ended.code == 0, ended.err
