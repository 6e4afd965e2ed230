"""A file layer in which one operation fails, in place of ``edgetune.artifacts.file_operations``."""

import errno
import inspect
import os
from collections.abc import Callable
from typing import Any, Protocol

from edgetune.artifacts import file_operations

NAMES = tuple(name for name, each in vars(file_operations).items() if inspect.isfunction(each))
"""Every operation of the file layer."""
ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EDQUOT": errno.EDQUOT}
FAULTS = (*ERRORS, "late EIO", "short", "half", "crash")
"""How an operation may fail; see ``Faults``."""


class Crash(BaseException):
    """A power failure, after which nothing is cleaned up."""


class Patch(Protocol):
    """Replaces an attribute until the end of a test: pytest's ``monkeypatch``."""

    def setattr(self, target: object, name: str, value: object) -> None:
        """Replace an attribute."""


class Faults:
    """Counts operations and makes one fail."""

    def __init__(self, patch: Patch, at: int | None = None, fault: str = "EIO") -> None:
        self.done: list[str] = []
        """The operations so far, by name."""
        self.hit = False
        """Whether there was such an operation."""
        self._at, self._fault, self._dead = at, fault, False
        for name in NAMES:
            patch.setattr(file_operations, name, self._wrapped(name, getattr(file_operations, name)))

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*args: Any, **kwargs: Any) -> Any:
            if self._dead:
                raise Crash
            number = len(self.done)
            self.done.append(name)
            if number != self._at:
                return None if name == "sync" else real(*args, **kwargs)  # a disk that is never cut off needs no sync
            self.hit = True
            return self._writes(real, *args) if name == "write" else self._fails(name, real, *args, **kwargs)

        return operation

    def _writes(self, real: Callable[..., Any], descriptor: int, data: memoryview) -> Any:
        if self._fault in ("short", "half", "crash"):
            count = real(descriptor, data[: len(data) // 2])
            if self._fault == "short":
                return count
        return self._raise(errno.ENOSPC)

    def _fails(self, name: str, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._fault == "short":
            return real(*args, **kwargs)
        if self._fault == "late EIO" and name != "create":
            real(*args, **kwargs)
        return self._raise(errno.EIO)

    def _raise(self, other: int) -> None:
        if self._fault == "crash":
            self._dead = True
            raise Crash
        code = ERRORS.get(self._fault, other)
        raise OSError(code, os.strerror(code))
