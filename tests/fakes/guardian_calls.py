"""A guardian of any control in the process of a test: its requests as lines, its exit code, replies and errors."""

import contextlib
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetune.devices.control import BoardControl
from edgetune.devices.guardian.program import run


@dataclass(frozen=True, slots=True)
class GuardianResult:
    """Result of a guardian: its exit code, its replies, and its standard error."""

    code: int
    replies: list[dict[str, Any]]
    errors: str


def request_line(number: int, request: str, **arguments: Any) -> bytes:
    """Return a request as a line."""
    return json.dumps({"id": number, "request": request, **arguments}).encode() + b"\n"


def apply_line(number: int, **knobs: float) -> bytes:
    """Return the request to set a mode as a line."""
    return request_line(number, "apply", mode=knobs)


def guard(control: BoardControl, root: Path, *lines: bytes, only_restore: bool = False) -> GuardianResult:
    """Run a guardian in this process on all lines at once (at most 64 KiB, the capacity of a pipe), then end its input.

    ``fake_files.Killed`` passes through. Must run in the main thread, because the guardian handles signals.
    """
    with contextlib.ExitStack() as stack:
        asked, ask = os.pipe()
        told, tell = os.pipe()
        stack.callback(os.close, asked)
        replies = stack.enter_context(open(told, encoding="utf-8"))
        os.write(ask, b"".join(lines))
        os.close(ask)
        errors = stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        try:
            code = run(control.name, lambda *_: control, root, only_restore=only_restore, requests=asked, replies=tell)
        finally:
            os.close(tell)
        return GuardianResult(code, [json.loads(line) for line in replies], errors.getvalue())
