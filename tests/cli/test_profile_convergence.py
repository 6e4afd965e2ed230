"""``edgetune profile --convergence``: tiny trainings, what is written, taken over, and refused."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.convergence import Convergence
from fakes.journals import entries_in

pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def corners(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    labels = generator.integers(4, size=600)
    points = np.stack([labels % 2, labels // 2], axis=1) + generator.normal(0, 0.2, (600, 2))
    np.savez(tmp_path / "corners.npz", x=points, y=labels)


def words(*more: str, sizes: str = "16,64", target: str = "90%") -> list[str]:
    given = ["profile", "proxy:mlp", "--convergence", "--dataset", "corners.npz", "--target-accuracy", target]
    return [*given, "--learning-rate", "0.02", "--batch-sizes", sizes, *more]


def test_a_table_is_written_grown_and_known_again(edgetune, tmp_path):
    ended = edgetune(*words("--seeds", "1", "--jobs", "1", "-o", "c.parquet"))
    assert (ended.code, ended.out) == (0, "")
    first = io.read(Convergence, "c.parquet")
    assert [(row.batch_size, row.seed) for row in first.rows] == [(16, 0), (64, 0)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.parquet", "corners.npz"]  # the journal is gone
    assert edgetune(*words("--seeds", "1", "-o", "c.parquet")).code == 0

    edgetune(*words("--seeds", "1", "-o", "c.parquet", "--verbose", sizes="32"))
    rows = io.read(Convergence, "c.parquet").rows
    assert [row for row in rows if row.batch_size != 32] == list(first.rows)
    assert len(rows) == 3

    other = edgetune(*words("-o", "c.parquet", target="80%"))
    assert_two_lines(other, 2)

    shown = edgetune("show", "c.parquet")
    assert shown.code == 0
    assert json.loads(edgetune("show", "c.parquet", "--json").out)["header"]["kind"] == "convergence"


def test_a_target_that_nothing_reaches_is_an_error_after_the_table_is_written(edgetune):
    ended = edgetune(
        *words("--max-epochs", "1", "--seeds", "1", "-o", "c.parquet", "--quiet", sizes="480", target="100%")
    )
    assert_two_lines(ended, 5)  # finished in part
    assert not io.read(Convergence, "c.parquet").rows[0].reached


def test_files_of_others_are_read_in_a_process_of_their_own(edgetune, monkeypatch):
    monkeypatch.setattr("edgetune.workflows.profile.convergence.load_dataset", None)
    ended = edgetune(*words("--dry-run", "--json"))
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["minibatches_at_most"] == (480 // 16 + 480 // 64) * 40 * 3


def test_dry_run_trains_nothing(edgetune, tmp_path):
    ended = edgetune(*words("--dry-run", "--jobs", "3", "-o", "c.parquet"))
    assert ended.code == 0
    found = json.loads(edgetune(*words("--dry-run", "--json", "-o", "c.parquet")).out)
    assert (found["runs"], found["batch_sizes"], found["minibatches_at_most"]) == (6, [16, 64], 4440)
    assert not (tmp_path / "c.parquet").exists()


@pytest.mark.parametrize("more", [["--task", "infer"], ["--batch-sizes", "481"], ["--target-accuracy", "0%"]])
def test_invalid_training_requests_are_refused(edgetune, more):
    ended = edgetune(*words("-o", "c.parquet", *more))
    assert_two_lines(ended, 2)


@pytest.mark.slow
def test_interrupted_it_ends_its_children_and_resumes(tmp_path):
    command = [
        sys.executable,
        "-m",
        "edgetune",
        *words("--seeds", "200", "--jobs", "2", "-o", "c.parquet", target="100%"),
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
    journal = tmp_path / ".c.parquet.journal"
    while process.poll() is None and len(entries_in(journal)) < 2:
        time.sleep(0.01)
    children = _children(process.pid)
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert len(children) == 2
    assert not any(os.path.exists(f"/proc/{pid}") for pid in children)


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
        found = [int(word) for word in file.read().split()]
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="utf-8") as file:
            found += [int(word) for word in file.read().split()]
    return sorted(set(found))
