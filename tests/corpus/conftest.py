"""The command line in this process, its measuring child too, so that what runs can be seen: feeds, outputs, shapes."""

import re
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime
import pytest

BARE_SESSION = onnxruntime.InferenceSession
ONE_THREAD = onnxruntime.SessionOptions()
ONE_THREAD.intra_op_num_threads = ONE_THREAD.inter_op_num_threads = 1
ONE_THREAD.log_severity_level = 4


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def refused(self) -> bool:
        """Whether it ended with 2 and two lines; what ONNX Runtime logs before them goes into a file in real life."""
        said = re.split(r"^(?=error: )", self.err, flags=re.MULTILINE)[-1]
        return self.code == 2 and [line[:6] for line in said.strip().splitlines()] == ["error:", "hint: "]


@dataclass
class Seen:
    """The last minibatch that went through ONNX Runtime."""

    feeds: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    outputs: list[np.ndarray[Any, Any]] = field(default_factory=list)


@pytest.fixture(autouse=True)
def here(children_here: None) -> None:
    """Everything that edgetune does in child processes happens here."""


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """What ran last, where the ``edgetune`` of a test measures."""
    last = Seen()

    class Watched(BARE_SESSION):
        def run(self, names, feeds, options=None):
            outputs = super().run(names, feeds, options)
            last.feeds, last.outputs = dict(feeds), outputs
            return outputs

    monkeypatch.setattr("onnxruntime.InferenceSession", Watched)
    return last


@pytest.fixture
def edgetune(capfd: pytest.CaptureFixture[str], tmp_path, monkeypatch: pytest.MonkeyPatch, commands_built_once: None):
    """Run the command in this process, in a folder of its own."""
    from edgetune.cli.main import run

    monkeypatch.chdir(tmp_path)

    def invoke(*argv: str) -> Ended:
        capfd.readouterr()
        code = run(argv)
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return Ended(int(code), out, err)

    return invoke


def bare(path: object, feeds: dict[str, np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Return what ONNX Runtime makes of the file as it is, without edgetune."""
    session = BARE_SESSION(str(path), ONE_THREAD, providers=["CPUExecutionProvider"])
    outputs: list[np.ndarray[Any, Any]] = session.run(None, feeds)
    return outputs
