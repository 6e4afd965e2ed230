"""The command that files record as their origin: what a shell takes, without secrets."""

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_MASK = "***"
_SECRET_NAME = r"(?i)(?:^|[-_])(?:password|passwd|secret|token|key|apikey|auth|credentials?)$"
"""Names of options and variables whose value is a secret, in the commands that edgetune is told to run."""
_SECRET_HEADER = r"(?i)^((?:proxy-)?authorization|cookie|[\w-]*(?:token|key))(:\s*).+"
"""Headers of HTTP, in a command that sends requests."""
_USER = r"(\w://)[^/@\s]+@"
"""User and password of a URL."""

_running: list[Sequence[str]] = []
"""Arguments of the command that runs."""


@contextmanager
def command_runs(argv: Sequence[str]) -> Iterator[None]:
    """Have files that are made meanwhile record the command of edgetune with these arguments."""
    _running.append(argv)
    try:
        yield
    finally:
        _running.pop()


def running_command() -> str:
    """Return the command that runs, values that look like secrets replaced by ``***``; empty in a Python program."""
    if not _running:
        return ""
    masked: list[str] = []
    secret_follows = False
    for word in _running[-1]:
        masked.append(_MASK if secret_follows else _masked(word))
        secret_follows = word.startswith("-") and "=" not in word and re.search(_SECRET_NAME, word) is not None
    return shlex.join(["edgetune", *masked])


def _masked(word: str) -> str:
    name, equals, _ = word.partition("=")
    if equals and re.search(_SECRET_NAME, name):
        return f"{name}={_MASK}"
    return re.sub(_USER, rf"\1{_MASK}@", re.sub(_SECRET_HEADER, rf"\1\2{_MASK}", word))
