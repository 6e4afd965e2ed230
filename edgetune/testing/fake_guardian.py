"""The guardian of a fake board: ``python -m edgetune.testing.fake_guardian FOLDER [OPTIONS]``.

The same program as on a board, over the fake kernel that ``fake_board`` built in the folder: a fake, no board is set.
``guard`` runs a guardian of anything in the test's own process.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetune.devices.control import BoardControl
from edgetune.devices.guardian.controls import open_jetson_control
from edgetune.devices.guardian.program import run
from edgetune.testing.fake_clock import FakeClock
from edgetune.testing.fake_kernel import FakeKernel


def fake_guardian_command(root: Path, *options: str) -> list[str]:
    """Return the command line of the guardian of the fake board in ``root``; it acts as root whoever runs it."""
    return [sys.executable, "-m", "edgetune.testing.fake_guardian", str(root), *options]


def open_fake(root: Path, *, beyond_caps: bool = False, hurried: bool = False) -> BoardControl:
    """Open what sets the knobs of the fake board in ``root``, with the rights of root.

    Args:
        root: Where ``make_board`` built it.
        beyond_caps: Offer values above what its power mode allows.
        hurried: Let all waiting be over at once.
    """
    if not hurried:
        return open_jetson_control(FakeKernel(root, user="root"), beyond_caps=beyond_caps)
    clock = FakeClock()
    kernel = FakeKernel(root, user="root", clock=clock)
    return open_jetson_control(kernel, beyond_caps=beyond_caps, sleep=clock.sleep_s)


@dataclass(frozen=True, slots=True)
class GuardianResult:
    """How a guardian ended: its exit code, its replies, and what it wrote to standard error."""

    code: int
    replies: list[dict[str, Any]]
    errors: str


def request_line(number: int, request: str, **arguments: Any) -> bytes:
    """Return a request as it is sent."""
    return json.dumps({"id": number, "request": request, **arguments}).encode() + b"\n"


def apply_line(number: int, **knobs: float) -> bytes:
    """Return the request to set a mode."""
    return request_line(number, "apply", mode=knobs)


def guard(control: BoardControl, root: Path, *lines: bytes, only_restore: bool = False) -> GuardianResult:
    """Run a guardian in this process: every line at once (64 KiB at most, as a pipe holds), then the end of its input.

    What kills it (``fake_kernel.Killed``) passes through. To be called in the main thread, for it hears signals.
    """
    with contextlib.ExitStack() as stack:
        asked, ask = os.pipe()
        told, tell = os.pipe()
        stack.callback(os.close, asked)
        replies = stack.enter_context(open(told))
        os.write(ask, b"".join(lines))
        os.close(ask)
        errors = stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        try:
            code = run(control.name, lambda *_: control, root, only_restore=only_restore, requests=asked, replies=tell)
        finally:
            os.close(tell)
        return GuardianResult(code, [json.loads(line) for line in replies], errors.getvalue())


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m edgetune.testing.fake_guardian", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--beyond-caps", action="store_true")
    parser.add_argument("--restore", action="store_true")
    parser.add_argument("--hurried", action="store_true", help="let all waiting be over at once")
    asked = parser.parse_args()

    def opening(_: str, root: Path) -> BoardControl:
        return open_fake(root, beyond_caps=asked.beyond_caps, hurried=asked.hurried)

    return run("jetson", opening, asked.folder.resolve(), only_restore=asked.restore)


if __name__ == "__main__":
    sys.exit(_main())
