"""A guardian run in the test's own process: every request at once, then the end of its input."""

import contextlib
import io
import json
import os
from dataclasses import dataclass

from edgetune.devices.guardian.program import run


@dataclass(frozen=True)
class Outcome:
    """How a guardian ended and what it said."""

    code: int
    replies: list
    errors: str


def request(number, what, **arguments):
    return json.dumps({"id": number, "request": what, **arguments}).encode() + b"\n"


def apply(number, **knobs):
    return request(number, "apply", mode=knobs)


def guard(device, control, root, *lines, only_restore=False):
    """Run a guardian of ``control``; whatever kills it (``Killed``) passes through."""
    with contextlib.ExitStack() as stack:
        asked, ask = os.pipe()
        told, tell = os.pipe()
        stack.callback(os.close, asked)
        replies = stack.enter_context(open(told))
        os.write(ask, b"".join(lines))
        os.close(ask)
        errors = io.StringIO()
        try:
            with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
                code = run(device, lambda *_: control, root, only_restore=only_restore, requests=asked, replies=tell)
        finally:
            os.close(tell)
        return Outcome(code, [json.loads(line) for line in replies], errors.getvalue())
