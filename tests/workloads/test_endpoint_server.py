"""Servers that are started for each point: readiness, faults, and nothing that is left running."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgetune.artifacts.io import read_profile
from edgetune.cli.main import run
from edgetune.stages.profiling import supervisor
from tests.fakes import openai_server


def _left_running() -> str:
    """Return the servers of this test that still run."""
    for _ in range(50):
        found = subprocess.run(["pgrep", "-f", openai_server.__file__], capture_output=True, text=True, check=False)
        if not found.stdout:
            break
        time.sleep(0.1)
    return found.stdout


def _profile(out: Path, start: str, *words: str) -> int:
    command = ["profile", "http://127.0.0.1/v1", "--model", "m", "--output-tokens", "4", "--device", "host"]
    return run([*command, "--minibatches", "2", "--start", start, "-o", str(out), *words])


def _fake(how: str) -> str:
    return f"{shlex.quote(sys.executable)} {shlex.quote(openai_server.__file__)} {{port}} {how}"


@pytest.mark.parametrize("how", ["good", "models"])
def test_server_is_started_and_ended_for_each_point(how: str, tmp_path: Path) -> None:
    assert _profile(tmp_path / "s.parquet", _fake(how), "--batch-sizes", "1,2") == 0
    rows = read_profile(str(tmp_path / "s.parquet")).rows
    assert [(row.batch_size, row.status, row.output_tokens) for row in rows] == [(1, "ok", 4), (2, "ok", 4)]
    assert not _left_running()


@pytest.mark.parametrize(
    ("start", "says"),
    [
        (_fake("ends"), "ended with exit code 1; its last output: no such model"),
        (_fake("dies"), "ended with exit code 3; its last output: out of memory"),
        ("no-such-program {port}", "there is no program 'no-such-program' to run"),
        ("sleep {prt}", "there is no placeholder {prt}"),
    ],
)
def test_faults(start: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _profile(tmp_path / "s.parquet", start) != 0
    assert says in capsys.readouterr().err
    assert not _left_running()


def test_server_that_does_not_become_ready(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_START_SHARE", 0.02)
    assert _profile(tmp_path / "s.parquet", "sleep 60", "--point-timeout", "50s") != 0
    assert "sleep was not ready at http://127.0.0.1:80/v1 within 1 s" in capsys.readouterr().err
