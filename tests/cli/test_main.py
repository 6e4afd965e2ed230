"""The one error boundary: two lines, the documented exit code, no traceback, whatever went wrong."""

import ast
import os
import shlex
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from command_line import assert_two_lines
from hostile import UNICODE, assert_harmless

import edgetune
from edgetune.cli import main as boundary
from edgetune.cli import removed, screen
from edgetune.errors import DeviceError, EdgetuneError, InfeasibleError, InputError, NotRestoredError, PartialError
from edgetune.version import __version__


def end_with(error: BaseException, monkeypatch: pytest.MonkeyPatch, *argv: str) -> int:
    def fail(_argv: list[str]) -> int:
        raise error

    monkeypatch.setattr(boundary, "_invoke", fail)
    return boundary.run(argv)


CODES = {EdgetuneError: 1, InputError: 2, InfeasibleError: 3, DeviceError: 4, PartialError: 5, NotRestoredError: 6}


@pytest.mark.parametrize(("kind", "code"), CODES.items())
def test_each_error_ends_with_its_code_and_two_lines(kind, code, monkeypatch, capsys):
    assert end_with(kind("it broke", "mend it"), monkeypatch) == code
    assert capsys.readouterr().err == "error: it broke\nhint: mend it\n"


def test_a_message_cannot_steer_the_terminal_or_flood_it(monkeypatch, capsys):
    end_with(InputError("\x1b]0;owned\x07" + "x" * 99_999, "mend it"), monkeypatch)
    error, hint = capsys.readouterr().err.splitlines()
    assert error.isprintable()
    assert len(error) < 1100
    assert hint == "hint: mend it"


def test_the_unexpected_is_named_and_traced_only_when_verbose(monkeypatch, capsys):
    assert end_with(ZeroDivisionError("of all things"), monkeypatch) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: unexpected: ZeroDivisionError: of all things\nhint: run again with --verbose")
    assert "Traceback" not in err
    assert end_with(ZeroDivisionError("of all things"), monkeypatch, "--verbose") == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [(KeyboardInterrupt(), 130), (boundary.Stopped(signal.SIGTERM), 143), (boundary.Stopped(signal.SIGHUP), 129)],
)
def test_signals_end_without_words(error, code, monkeypatch, capsys):
    assert end_with(error, monkeypatch) == code
    assert capsys.readouterr().err == ""


def test_version_and_bare_command(edgetune):
    assert edgetune("--version").out == f"edgetune {__version__}\n"
    bare = edgetune()
    assert bare.code == 0
    assert "Exit codes:" in bare.out


SLEEPER = """
import signal, sys, time
from edgetune.cli import main as boundary
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup these tests inherit that it is ignored
def work(argv):
    try:
        print("started", flush=True)
        time.sleep(60)
    finally:
        print("board restored", flush=True)
    return 0
boundary._invoke = work
boundary.main([])
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_lets_finally_blocks_run(number, code):
    with subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"started\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (code, b"board restored\n", b"")


TALKER = 'from edgetune.cli import main as m; m._invoke = lambda a: print("x\\n" * 99999) or 0; m.main([])'


def bash(line: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], capture_output=True, check=False)


def test_a_closed_pipe_ends_quietly():
    done = bash(f"{sys.executable} -c {shlex.quote(TALKER)} | head -1")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"x\n", b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_behind_standard_output_is_two_lines():
    done = bash(f"{sys.executable} -m edgetune --help > /dev/full")
    assert done.returncode == 2
    assert done.stderr.decode().splitlines() == [
        "error: standard output: No space left on device",
        "hint: the disk is full: free some space, or write elsewhere",
    ]


@pytest.mark.parametrize("words", ["--help", "device"])
def test_a_closed_standard_output_is_two_lines(words):
    done = bash(f"{sys.executable} -m edgetune {words} >&-")
    assert done.returncode == 2
    assert done.stderr.decode().splitlines() == [
        "error: standard output: Bad file descriptor",
        "hint: it is closed: name a file, or redirect it to one",
    ]


def test_a_closed_standard_error_does_not_spill_into_the_output():
    done = bash(f"{sys.executable} -m edgetune search nowhere.csv 2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"")


HOLDER = (
    "from edgetune.processes.streams import hold_closed_streams as hold; import os; hold(); "
    "fd = os.open('/dev/null', os.O_RDONLY); os.write(9, str(fd).encode())"
)


def test_no_file_takes_the_number_of_a_closed_stream():
    done = bash(f"{sys.executable} -c {shlex.quote(HOLDER)} 9>&1 <&- >&- 2>&-")
    assert int(done.stdout) > 2


def test_ctrl_c_while_libraries_load_ends_without_words():
    program = (
        "import builtins, sys\nfrom edgetune.cli.main import main\nload = builtins.__import__\n"
        "def interrupted(name, *rest):\n"
        "    if name == 'typer':\n        raise KeyboardInterrupt\n    return load(name, *rest)\n"
        "builtins.__import__ = interrupted\nmain([])\n"
    )
    done = bash(f"{sys.executable} -c {shlex.quote(program)}")
    assert (done.returncode, done.stderr) == (130, b"")


@pytest.fixture(params=[*removed.REPLACED, "search --drawn", "device was"])
def words(request, monkeypatch):
    """The words of a removed command or option; two of a made table, so that there is always one of each."""
    monkeypatch.setitem(removed.REPLACED, "search --drawn", "look at it")
    monkeypatch.setitem(removed.REPLACED, "device was", "look at edgetune device list")
    return request.param


def test_removed_commands_and_options_are_answered_by_their_replacement(edgetune, words):
    ended = edgetune(*words.split())
    assert_two_lines(ended, 2)
    assert f"'{words}' was removed" in ended.lines[0]
    assert ended.lines[1] == f"hint: {removed.REPLACED[words]}"


def test_a_file_of_the_name_of_a_removed_command_is_read(edgetune, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(removed.REPLACED, "search was", "look at it")
    (tmp_path / "was").write_text("no table")
    ended = edgetune("search", "was")
    assert_two_lines(ended, 2)
    assert "removed" not in ended.err


# Everything that is printed goes through one module

PACKAGE = Path(edgetune.__file__).parent
PRINTS = {"print", "sys.stdout.write", "sys.stderr.write", "typer.echo", "typer.secho", "click.echo", "os.system"}
LAST = {name.rpartition(".")[2] for name in PRINTS}
ALLOWED = {
    "cli/screen.py": "the one module",
    "devices/guardian/program.py": "the guardian, which is isolated from the cli, prints by one_line",
    "stages/interleave/worker.py": "into the log of a child process, which log_tail shows visibly",
}


def calls(path):
    """Return what a module prints by."""
    called = [node.func for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    return {ast.unparse(each) for each in called if getattr(each, "attr", getattr(each, "id", "")) in LAST} & PRINTS


def test_no_other_module_prints():
    modules = [path for path in PACKAGE.rglob("*.py") if "testing" not in path.parts]
    assert len(modules) > 300
    printing = {str(path.relative_to(PACKAGE)) for path in modules if calls(path)}
    assert printing <= set(ALLOWED), printing - set(ALLOWED)


def test_warnings_of_libraries_are_one_visible_line():
    before = warnings.formatwarning
    try:
        screen.show_warnings()
        shown = warnings.formatwarning(UserWarning(UNICODE), UserWarning, f"/lib{UNICODE}.py", 3)
    finally:
        warnings.formatwarning = before
    assert shown.count("\n") == 1
    assert_harmless(shown)
    assert "\\u202e" in shown
