"""The completion scripts are the committed ones, and each shell really completes with them."""

import errno
import os
import pty
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from command_line import assert_two_lines

from edgetune.cli.completions import render

FOLDER = Path(__file__).parents[2] / "completions"

CASES = {
    "edgetune pro": {"profile"},
    "edgetune ": {
        "profile",
        "search",
        "interleave",
        "device",
        "zoo",
        "show",
        "help",
        "doctor",
        "fleet",
        "roofline",
        "schedule",
        "measure",
        "merge",
        "compare",
        "report",
    },
    "edgetune zoo ex": {"export"},
    "edgetune zoo export resnet": {"resnet18", "resnet50"},
    "edgetune search ev": {"evaluate"},
    "edgetune search table.csv --strategy gm": {"gmd"},
    "edgetune search --objective energy": {"energy", "energy-delay"},
    "edgetune profile --task ": {"infer", "train"},
    "edgetune profile model.onnx --dry": {"--dry-run"},
    "edgetune schedule kernels bench --policy ": {"sequential", "multistream", "barrier", "elastic", "persistent"},
    "edgetune schedule kernels run tasks.yaml --device ": {"nvidia:0", "jetson"},
    "edgetune schedule kernels shrink k.cu --gpu orin": {"orin-agx", "orin-nano"},
}


def test_the_committed_scripts_are_the_generated_ones():
    committed = {path.name: path.read_text() for path in FOLDER.iterdir()}
    assert committed == render(), "run: edgetune completions --write completions/"


def test_scripts_that_cannot_be_written_are_two_lines_and_leave_nothing(edgetune, tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert_two_lines(edgetune("completions", "--write", str(tmp_path)), 2)
    assert list(tmp_path.iterdir()) == []


def in_bash(line: str) -> list[str]:
    script = f"""
        source {FOLDER}/edgetune.bash
        COMP_LINE={line!r} COMP_POINT={len(line)}
        _edgetune
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, check=True, text=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(("line", "expected"), CASES.items())
def test_bash_completes(line, expected):
    assert set(in_bash(line)) == expected


def test_bash_completes_after_a_colon_as_bash_splits_words():
    assert set(in_bash("edgetune profile zoo:resnet")) == {"resnet18", "resnet50"}
    assert set(in_bash("edgetune profile x.onnx --device twin:o")) == {"orin-agx"}


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(("line", "expected"), CASES.items())
def test_fish_completes(line, expected, tmp_path):
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {FOLDER}/edgetune.fish; complete -C {line!r}"],
        capture_output=True, check=True, text=True, cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert {row.split("\t")[0] for row in done.stdout.splitlines()} == expected


def typed(argv: list[str], setup: str, line: str, until: str, folder: Path) -> str:
    """Type into a shell on a terminal of its own, as a person does, and return what it shows."""
    terminal, inside = pty.openpty()
    env = {**os.environ, "TERM": "dumb", "HOME": str(folder), "PS1": "", "INPUTRC": "/dev/null"}
    shell = subprocess.Popen(
        argv, stdin=inside, stdout=inside, stderr=inside, cwd=folder, env=env, start_new_session=True
    )
    os.close(inside)
    try:
        os.write(terminal, f"{setup}; echo rea''dy\n".encode())
        read_until(terminal, "ready")
        os.write(terminal, line.encode())
        return read_until(terminal, until)
    finally:
        shell.kill()
        shell.wait()
        os.close(terminal)


def read_until(terminal: int, text: str) -> str:
    seen, deadline_s = "", time.monotonic() + 20
    while text not in seen and time.monotonic() < deadline_s:
        if select.select([terminal], [], [], 1)[0]:
            seen += os.read(terminal, 4096).decode(errors="replace")
    return seen


def test_tab_in_an_interactive_bash(tmp_path):
    setup = f"bind 'set bell-style none'; source {FOLDER}/edgetune.bash; edgetune() {{ echo \"got:$*:\"; }}"
    seen = typed(["bash", "--norc", "--noprofile", "-i"], setup, "edgetune pro\t zoo:squ\t\n", "squeezenet:", tmp_path)
    assert "got:profile zoo:squeezenet" in seen


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_tab_in_an_interactive_zsh(tmp_path):
    setup = f'fpath=({FOLDER} $fpath); autoload -Uz compinit; compinit -u -D; edgetune() {{ echo "got:$*:" }}'
    seen = typed(["zsh", "-f", "-i"], setup, "edgetune pro\t --task inf\t zoo:squ\t\n", "squeezenet:", tmp_path)
    assert "got:profile --task infer zoo:squeezenet" in seen
    seen = typed(["zsh", "-f", "-i"], setup, "edgetune search zoo:squ\t --strategy gm\t\n", "gmd:", tmp_path)
    assert "got:search zoo:squeezenet --strategy gmd" in seen
    seen = typed(["zsh", "-f", "-i"], setup, "edgetune search eva\t --js\t\n", "--json:", tmp_path)
    assert "got:search evaluate --json" in seen
