"""One boundary for models of unknown origin: whatever is wrong with their bytes ends as two lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from edgetune.errors import InputError

HINT = "check the model with onnx.checker, or export it again"


@contextmanager
def refuse_malformed(what: str) -> Iterator[None]:
    """Turn what protobuf, onnx and numpy raise on a damaged model into an error that names ``what``.

    Text that is no UTF-8, types that do not exist, values that do not fill their shape, nodes without their inputs and
    functions that call themselves all parse as protobuf and fail only when read.

    Args:
        what: What was being read, e.g. ``"the model's weights"``.

    Raises:
        InputError: in their place.
    """
    try:
        yield
    except Exception as error:
        if not isinstance(error, (ArithmeticError, LookupError, TypeError, ValueError, *_onnx_errors())):
            raise
        lines = str(error).splitlines() or [type(error).__name__]
        raise InputError(f"{what} cannot be read, the model is malformed: {lines[0]}", HINT) from error


def _onnx_errors() -> tuple[type[Exception], ...]:
    """Return what the checks of the onnx library raise, which share no base with other errors."""
    from onnx import checker, shape_inference

    return checker.ValidationError, shape_inference.InferenceError
