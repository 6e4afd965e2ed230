"""Requests from standard input: whatever becomes of it, the run learns that no more will come."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace

import pytest

from edgetune.artifacts.jobs import Job
from edgetune.serving.sources import LineArrivals
from edgetune.workflows.schedule import live
from edgetune.workflows.schedule.live import feeding


class Run:
    """Takes requests, and notes when it was told that no more come."""

    figures = SimpleNamespace(base_bytes=1)

    def __init__(self) -> None:
        self.asked = 0
        self.ended = threading.Event()

    def ask(self, network: str, *, job: str, due_s: float | None) -> None:
        self.asked += 1

    def end(self) -> None:
        self.ended.set()


def test_standard_input_that_is_closed_ends_the_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(write)
    os.close(read)
    monkeypatch.setattr(live, "LineArrivals", lambda: LineArrivals(read))
    run = Run()
    with feeding(run, Job("photos", ("faces",), "live"), (0,), None):  # type: ignore[arg-type]
        assert run.ended.wait(60)
    assert run.asked == 0
