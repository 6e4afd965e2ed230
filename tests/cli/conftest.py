import subprocess
import sys
from dataclasses import dataclass

import pytest


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.err.strip().splitlines()


def assert_two_lines(ended: Ended, code: int) -> None:
    assert ended.code == code, ended.err
    assert "Traceback" not in ended.err
    assert len(ended.lines) == 2, ended.err
    assert ended.lines[0].startswith("error: ")
    assert ended.lines[1].startswith("hint: ")
    assert all(len(line) > len("error: x") for line in ended.lines)


@pytest.fixture
def edgetune(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Run the command in this process, which is quick; standard input is empty."""
    from edgetune.cli.main import run

    def invoke(*argv: str) -> Ended:
        capfd.readouterr()
        code = run(argv)
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return Ended(int(code), out, err)

    return invoke


@pytest.fixture
def shell(tmp_path):
    """Run the command in a process of its own, as a user does, in a folder of its own."""

    def invoke(*argv: str, stdin: bytes | None = None, env: dict[str, str] | None = None) -> Ended:
        import os

        done = subprocess.run(
            [sys.executable, "-m", "edgetune", *argv], cwd=tmp_path, input=stdin if stdin is not None else b"",
            capture_output=True, env={**os.environ, **(env or {})}, timeout=120, check=False,
        )  # fmt: skip
        return Ended(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    return invoke
