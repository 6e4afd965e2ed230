"""A sweep killed by SIGKILL at random moments ends with exactly the points asked for."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fakes.journals import entries_in

SLEEPS = "import time\ndef make(batch_size):\n    return lambda: time.sleep(0.005)\n"

SWEEP = """
import json, sys
from pathlib import Path
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.devices.host import open_host
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.sweep import sweep
from edgetune.workloads.resolve import resolve

folder = Path(sys.argv[1])
points = [Point("train", "train", size, Mode(cpu_cores=1)) for size in range(1, int(sys.argv[2]) + 1)]
options = ProfileOptions(minibatches=4)
profile = sweep(open_host(), resolve(str(folder / "train.py")), points, options, folder / "journal")
rows = [[row.batch_size, row.status, row.minibatch_s] for row in profile.rows]
print(json.dumps({"rows": rows, "resumed": profile.header.conditions["points_resumed"]}))
"""


def finished(journal: Path) -> list[int]:
    """Batch sizes of the points in the journal, without locking it."""
    return [value["point"]["batch_size"] for value in entries_in(journal)]


def start(tmp_path, points):
    return subprocess.Popen(
        [sys.executable, "-c", SWEEP, str(tmp_path), str(points)], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("kills", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_a_killed_sweep_has_every_point_once(tmp_path, kills):
    """Each run is killed when it has finished a random number of further points, plus a random moment."""
    (tmp_path / "train.py").write_text(SLEEPS)
    points, journal, generator = 5 * kills, tmp_path / "journal", random.Random(kills)
    before: list[int] = []
    for _ in range(kills):
        target = len(before) + generator.randint(0, 2)
        with start(tmp_path, points) as process:
            while len(finished(journal)) < target and process.poll() is None:
                time.sleep(0.002)
            time.sleep(generator.uniform(0, 0.06))
            process.kill()
        after = finished(journal)
        assert after[: len(before)] == before, "a finished point was lost"
        assert len(set(after)) == len(after), "a finished point was measured again"
        before = after
    with start(tmp_path, points) as process:
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0
    result = json.loads(output)
    assert [row[:2] for row in result["rows"]] == [[size, "ok"] for size in range(1, points + 1)]
    assert result["resumed"] == len(before) < points
    assert finished(journal) == [row[0] for row in result["rows"]]
