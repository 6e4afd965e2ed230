import os
import subprocess
import sys

import pytest
from chain_inputs import write_inputs
from command_line import Ended
from hints import misplaced


@pytest.fixture
def edgetune(capfd: pytest.CaptureFixture[str], commands_built_once: None):
    """Run the command in this process, which is quick; standard input is empty."""
    from edgetune.cli.main import run

    def invoke(*argv: str) -> Ended:
        capfd.readouterr()
        code = run(argv)
        sys.stdout.flush()
        out, err = capfd.readouterr()
        for line in err.splitlines():
            if line.startswith("hint: "):
                assert misplaced(line.removeprefix("hint: "), argv) == [], line
        return Ended(int(code), out, err)

    return invoke


@pytest.fixture
def few_minibatches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure five minibatches of each point where a command line cannot say how many."""
    from edgetune.stages.profiling.options import ProfileOptions

    few = lambda **each: ProfileOptions(**{**each, "minibatches": each["minibatches"] or 5})  # noqa: E731
    monkeypatch.setattr("edgetune.workflows.parse_options.ProfileOptions", few)


@pytest.fixture
def edgetune_raw(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch, commands_built_once: None):
    """Run the command in this process with any words; bytes that are not UTF-8 come back as U+FFFD.

    Standard input is empty.
    """
    from edgetune.cli.main import run

    nothing = open(os.devnull, encoding="utf-8")  # noqa: SIM115 -- closed below
    monkeypatch.setattr(sys, "stdin", nothing)

    def invoke(*argv: str) -> Ended:
        capfdbinary.readouterr()
        code = run(argv)
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Ended(int(code), out.decode(errors="replace"), err.decode(errors="replace"))

    yield invoke
    nothing.close()


@pytest.fixture
def shell(tmp_path):
    """Run the command in a process of its own, as a user does, in a folder of its own."""

    def invoke(*argv: str, stdin: bytes | None = None, env: dict[str, str] | None = None) -> Ended:
        done = subprocess.run(
            [sys.executable, "-m", "edgetune", *argv], cwd=tmp_path, input=stdin if stdin is not None else b"",
            capture_output=True, env={**os.environ, **(env or {})}, timeout=120, check=False,
        )  # fmt: skip
        return Ended(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    return invoke


@pytest.fixture
def inputs_folder(tmp_path, monkeypatch):
    """A present folder with the files that a chain of commands reads, and caches and states of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    write_inputs(tmp_path)
    return tmp_path
