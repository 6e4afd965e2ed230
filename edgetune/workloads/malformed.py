"""One boundary for models of unknown origin: whatever is wrong with their bytes ends as two lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from edgetune.errors import InputError

HINT = "check the model with onnx.checker, or export it again"


@contextmanager
def refuse_malformed(what: str) -> Iterator[None]:
    """Turn what protobuf, onnx and numpy raise on a damaged model into an error that names ``what``.

    Text that is no UTF-8, types that do not exist, values that do not fill their shape and nodes without their inputs
    all parse as protobuf and fail only when read.

    Args:
        what: What was being read, e.g. ``"the model's weights"``.

    Raises:
        InputError: in their place.
    """
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise InputError(f"{what} cannot be read, the model is malformed: {lines[0]}", HINT) from error
