"""A signal in a long command: what is kept and how to go on is told, and the exit code is the signal's."""

import csv
import itertools
import os
import signal
import subprocess
import sys
import time

import pytest
from chain_inputs import small_network
from hints import misplaced

from edgetune.artifacts import io

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
TRAIN = """
import time
def make(batch_size):
    def step():
        time.sleep(3600 if batch_size == 8 else 0.005)
    return step
"""
HANGS = "import time\ntime.sleep(3600)\ndef make(batch_size): ...\n"
COSTS = "network,layer,kind,weight_bytes,output_bytes,load_s,execute_s\nfaces,fc,fc,1000,100,0.1,0.1\n"
JOBS = """kind: jobs
version: 1
memory: 64MiB
networks: {faces: {costs: costs.csv}}
jobs: [{name: photos, networks: [faces], arrivals: periodic:100ms, count: 400}]
"""


def big_table(path):
    """Write 4096 points of a made-up board, of which some keep 20 W: enough for a search that takes a while."""
    with path.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(
            ["workload", "task", "batch_size", "cpu_cores", "cpu_mhz", "gpu_mhz", "mem_mhz", "minibatch_s", "power_w"]
        )
        values = ((1, 2, 4, 8), (2, 4, 8, 12), range(300, 2300, 250), range(300, 1300, 125), (204, 665, 2133, 3199))
        for size, cores, cpu, gpu, mem in itertools.product(*values):
            time_s = size * (1 / cpu + 3 / gpu + 1 / mem) / cores**0.2
            rows.writerow(["net", "train", size, cores, cpu, gpu, mem, time_s, 5 + cpu / 400 + gpu / 90 + mem / 400])


@pytest.fixture
def folder(tmp_path):
    small_network(tmp_path)
    (tmp_path / "slow.py").write_text(TRAIN)
    (tmp_path / "hangs.py").write_text(HANGS)
    (tmp_path / "costs.csv").write_text(COSTS)
    (tmp_path / "jobs.yaml").write_text(JOBS)
    return tmp_path


def stopped(folder, line, marker, number):
    """Run a command, send it a signal after a line of its standard error, and return the exit code and the rest."""
    command = [sys.executable, "-m", "edgetune", *line.split()]
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
    ) as process:  # fmt: skip
        assert process.stderr is not None
        said = [process.stderr.readline()]
        while marker not in said[-1]:
            assert said[-1], f"ended before {marker!r}: {said}"
            said.append(process.stderr.readline())
        time.sleep(0.5)  # libraries that are being loaded may take an exception for a failure of their own
        process.send_signal(number)
        try:
            _, rest = process.communicate(timeout=60)
        finally:
            process.kill()
    assert "Traceback" not in rest
    code = process.returncode
    return (code if code >= 0 else 128 - code), rest  # as a shell tells it; Python may end by the signal itself


LIVE = "search slow.py --task train --device host --batch-sizes 1,2,8 --strategy exhaustive --verbose"


@pytest.mark.parametrize(("number", "code"), [SIGNALS[0], pytest.param(*SIGNALS[1], marks=pytest.mark.slow)])
def test_a_live_search_tells_the_best_so_far_and_keeps_its_points_without_being_asked(folder, number, code):
    """Beside the file that an earlier search left; points that were kept are not measured again."""
    (folder / "slow-train-points.parquet").write_bytes(b"points of another night")
    ended, said = stopped(folder, LIVE, "step 2:", number)
    assert ended == code, said
    assert "stopped; best so far: " in said
    assert "the 2 points measured are in slow-train-points-2.parquet: add --known slow-train-points-2.parquet" in said
    assert (folder / "slow-train-points.parquet").read_bytes() == b"points of another night"
    table = io.read_profile(str(folder / "slow-train-points-2.parquet"))
    assert [row.batch_size for row in table.rows] == [1, 2]
    assert table.header.inputs["workload"]["path"] == str(folder / "slow.py")
    ended, said = stopped(folder, f"{LIVE} --known slow-train-points-2.parquet", "step 2:", number)
    assert (ended, "0 points measured, 2 known" in said) == (code, True), said


@pytest.mark.parametrize(("number", "code"), [SIGNALS[1], pytest.param(*SIGNALS[0], marks=pytest.mark.slow)])
def test_a_search_in_a_table_tells_the_best_so_far(folder, number, code):
    big_table(folder / "big.csv")
    line = "search big.csv --power-budget 20W --strategy tpe --max-points 3000 --verbose"
    ended, said = stopped(folder, line, "step 40:", number)
    assert ended == code, said
    (best,) = [line for line in said.splitlines() if line.startswith("stopped; best so far: ")]
    assert "points measured" in best
    assert "every point is in the table as before" in said
    assert not list(folder.glob("*points*"))


@pytest.mark.parametrize(
    ("ending", "line", "marker", "words"),
    [
        (SIGNALS[0], "roofline --device host", "measuring peaks", "--quick runs fewer"),
        (
            SIGNALS[1], "interleave --infer small.onnx --train hangs.py --arrivals uniform:4 --latency-budget 1s",
            "measuring", "profile MODEL -o FILE, then --profile FILE",
        ),
        (
            SIGNALS[0], "schedule prepare zoo:resnet50 zoo:alexnet -o prepared", "splitting",
            "prepared by now are in prepared",
        ),
    ],
    ids=["roofline", "interleave", "prepare"],
)  # fmt: skip
def test_every_long_command_says_what_is_kept(folder, ending, line, marker, words):
    number, code = ending
    ended, said = stopped(folder, line, marker, number)
    assert ended == code, said
    (told,) = [each for each in said.splitlines() if each.startswith(("stopped; ", "stopped before"))]
    assert words in told
    assert misplaced(told, line.split()) == []
