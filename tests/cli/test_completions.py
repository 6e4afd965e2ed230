"""The completion scripts are typer's, and each shell really completes with them."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.completion import get_completion_script

from edgetune.cli.app import COMMANDS
from edgetune.cli.main import VARIABLE

FOLDER = Path(__file__).parents[2] / "completions"

LATE = ("torch", "onnx", "onnxruntime", "pyarrow", "numpy", "scipy")

CASES = {
    "edgetune pro": {"profile"},
    "edgetune ": set(COMMANDS),
    "edgetune zoo ex": {"export"},
    "edgetune search ev": {"evaluate"},
    "edgetune profile model.onnx --dry": {"--dry-run"},
    "edgetune schedule kernels run tasks.yaml --dev": {"--device"},
}
OTHERS = {"edgetune prfile nothing": set(), "edgetune --version": {"--version"}, "edgetune --version pro": {"profile"}}


FIRST_TAB = "[[ $funcstack[1] == _edgetune ]] && _edgetune_completion  # the first TAB, which loads this file\n"
"""What typer's script for zsh lacks: it offers nothing at the TAB that loads it."""


@pytest.mark.parametrize(
    ("name", "shell", "more"),
    [("edgetune.bash", "bash", ""), ("_edgetune", "zsh", FIRST_TAB), ("edgetune.fish", "fish", "")],
)
def test_the_committed_scripts_are_those_of_typer(name, shell, more):
    script = get_completion_script(prog_name="edgetune", complete_var=VARIABLE, shell=shell)
    assert (FOLDER / name).read_text(encoding="utf-8") == f"{script}\n{more}"


def in_bash(line: str) -> list[str]:
    words = " ".join(f"'{word}'" for word in split_as_bash(line))
    script = f"""
        source {FOLDER}/edgetune.bash
        COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _edgetune_completion edgetune
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, check=True, text=True)
    assert done.stderr == ""
    return done.stdout.split()


def split_as_bash(line: str) -> list[str]:
    return re.findall("(?<= )$|[^ ]+", line)


@pytest.mark.parametrize("line", ["edgetune zoo ex", "edgetune profile model.onnx --dry"])
def test_bash_completes(line):
    assert set(in_bash(line)) == CASES[line]


@pytest.mark.parametrize(("line", "expected"), (CASES | OTHERS).items())
def test_what_bash_asks_is_answered(edgetune, monkeypatch, line, expected):
    """In this process, with the variables that the script of bash sets."""
    words = split_as_bash(line)
    asked = {VARIABLE: "complete_bash", "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    for name, value in {**asked, "COLUMNS": "80"}.items():
        monkeypatch.setenv(name, value)
    assert set(edgetune().out.split()) == expected


def test_completion_loads_no_library_that_commands_load_late():
    code = f"import sys; from edgetune.cli.main import run; run([]); print(sorted(set({LATE}) & set(sys.modules)))"
    env = {**os.environ, "COMP_WORDS": "edgetune\nprofile\n--dry", "COMP_CWORD": "2", VARIABLE: "complete_bash"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout == "--dry-run\n[]\n"


@pytest.mark.parametrize(("line", "code"), [("edgetune ", 0), ("edgetune profile model.on", 1)])
def test_fish_asks_for_one_line_a_word_and_whether_there_is_one(edgetune, monkeypatch, line, code):
    asked = {VARIABLE: "complete_fish", "_TYPER_COMPLETE_ARGS": line, "COMP_WORDS": "", "COMP_CWORD": "0"}
    for name, value in {**asked, "COLUMNS": "80", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}.items():
        monkeypatch.setenv(name, value)
    assert dict(row.split("\t") for row in edgetune().out.split("\n") if row) == ({} if code else COMMANDS)
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "is-args")
    assert edgetune().code == code


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
    seen = typed(["bash", "--norc", "--noprofile", "-i"], setup, "edgetune pro\t --dry\t\n", "run:", tmp_path)
    assert "got:profile --dry-run" in seen


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_tab_in_an_interactive_zsh(tmp_path):
    setup = f'fpath=({FOLDER} $fpath); autoload -Uz compinit; compinit -u -D; edgetune() {{ echo "got:$*:" }}'
    seen = typed(["zsh", "-f", "-i"], setup, "edgetune pro\t --dry\t\n", "run:", tmp_path)
    assert "got:profile --dry-run" in seen
    seen = typed(["zsh", "-f", "-i"], setup, "edgetune search eva\t --js\t\n", "--json:", tmp_path)
    assert "got:search evaluate --json" in seen
