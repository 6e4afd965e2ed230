"""The command line in this process, its measuring child too, so that what runs can be seen: feeds, outputs, shapes."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from foreign import ForeignNetwork

from edgetune.workloads import observed

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


class ChildHere:
    """Answers what edgetune asks of its child processes, in this process and with the same code."""

    alive, pid = True, 0

    def __init__(self, module: str, **_: object) -> None:
        from edgetune.stages.profiling import worker
        from edgetune.workloads.observe_worker import Observer

        self._module = module
        self._observer = Observer()
        self._session = worker._Session()

    def ask(self, command: dict[str, Any], *, deadline_s: float) -> dict[str, Any]:
        assert deadline_s > time.monotonic()
        if self._module == observed.WORKER:
            return dict(self._observer(command))
        assert self._module == "edgetune.stages.profiling.worker"
        if command["command"] == "prepare":
            return {"load_ns": self._session.prepare({**command, "cpus": [], "threads": 1})}
        return self._session.run(command["minibatches"])

    def log_tail(self) -> str:
        return ""

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that edgetune does in child processes happens here."""
    onnxruntime.set_default_logger_severity(4)  # of a real child, what it logs goes into a file
    monkeypatch.setattr("onnxruntime.set_default_logger_severity", lambda level: None)
    monkeypatch.setattr("edgetune.stages.profiling.supervisor.Child", ChildHere)
    monkeypatch.setattr("edgetune.workloads.observed.Child", ChildHere)
    monkeypatch.setattr("edgetune.stages.profiling.worker.give_back", lambda: None)  # there is much more here


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
