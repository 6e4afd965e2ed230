"""What the fuzzer once found stays found: a folder of ``damaged`` each, with its files and its command line."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import fuzz

CASES = sorted(path.parent for path in Path(__file__).with_name("damaged").glob("*/command"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_once_failed_is_answered_or_refused_in_two_lines(edgetune_raw, tmp_path, monkeypatch, case):
    shutil.copytree(case, tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    ended = edgetune_raw(*shlex.split((case / "command").read_text(encoding="utf-8")))
    assert fuzz.judged(ended.code, ended.out.encode(), ended.err.encode()) == []


@pytest.mark.parametrize(
    ("code", "err", "fault"),
    [
        (1, "error: unexpected: x\nhint: y\n", "exit 1: error: unexpected: x"),
        (0, "Traceback (most recent call last)\n", "traceback: on standard error"),
        (2, "error: x\n", "two lines: exit 2 with 1 errors, last ['error: x']"),
        (2, "error: \x1b[2J\nhint: y\n", "control letters in the output"),
    ],
)
def test_the_fuzzer_notices_what_is_wrong(code, err, fault):
    assert fuzz.judged(code, b"", err.encode()) == [fault]


@pytest.mark.parametrize(
    "words",
    [
        ("--inputs", "20"),
        *(
            pytest.param(("--seed", seed, "--inputs", "500", "--only", only), marks=pytest.mark.slow)
            for seed in ("11", "12", "13")
            for only in ("", "<*.onnx>")
        ),
    ],
    ids=" ".join,
)
def test_the_fuzzer_finds_nothing_in_these_inputs(words):
    command = [sys.executable, "tests/benchmarks/fuzz.py", "--jobs", "1", *words]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
