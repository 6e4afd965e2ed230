"""What edgetune does in child processes, done in this one: it can be seen, and no Python starts for each."""

import os
import time
from typing import Any

import onnxruntime
import pytest

from edgetune.stages.profiling import worker
from edgetune.workloads import observed
from edgetune.workloads.observe_worker import Observer


class ChildHere:
    """Answers what edgetune asks of its child processes, in this process and with the same code."""

    alive, pid = True, os.getpid()

    def __init__(self, module: str, **_: object) -> None:
        self._module = module
        self._observer = Observer()
        self._session = worker.Session()

    def ask(self, command: dict[str, Any], *, deadline_s: float) -> dict[str, Any]:
        assert deadline_s > time.monotonic()
        if self._module == observed.WORKER:
            return dict(self._observer(command))
        assert self._module == "edgetune.stages.profiling.worker:Session"
        return self._session({**command, "cpus": [], "threads": 1} if command["command"] == "load" else command)

    def log_tail(self) -> str:
        return ""

    def close(self) -> None:
        pass


def run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    onnxruntime.set_default_logger_severity(4)  # of a real child, what it logs goes into a file
    monkeypatch.setattr("onnxruntime.set_default_logger_severity", lambda level: None)
    monkeypatch.setattr("edgetune.stages.profiling.supervisor.Child", ChildHere)
    monkeypatch.setattr("edgetune.workloads.observed.Child", ChildHere)
    monkeypatch.setattr("edgetune.stages.profiling.worker.give_back", lambda: None)  # there is much more here
