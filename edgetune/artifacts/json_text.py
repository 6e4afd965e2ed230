"""JSON texts from outside to values, and what holds for the values of every document: finite, and not too deep."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from edgetune import limits
from edgetune.errors import InputError


def load_json(text: str | bytes, *, name: str) -> Any:
    """Return the values in a JSON text.

    Raises:
        InputError: not JSON, nested deeper than the limit, or a number that is not finite.
    """
    try:
        found = json.loads(text)
    except RecursionError:
        raise limits.beyond("document_depth", f"{name} is nested too deeply: it") from None
    except ValueError as error:  # UnicodeDecodeError and an integer of 5,000 digits included
        raise InputError(f"{name} is not JSON: {error}", "correct it, or write it again") from None
    return checked_values(found, name=name)


def checked_values(document: Any, *, name: str) -> Any:
    """Return a document of lists and mappings unless a number in it is not finite, or it is nested too deeply.

    Raises:
        InputError: a NaN or an infinity, whose key is named, or more levels than the limit allows.
    """
    deepest = limits.limit("document_depth")
    waiting: list[tuple[Any, tuple[Any, ...]]] = [(document, ())]
    while waiting:
        value, path = waiting.pop()
        if isinstance(value, float):
            _refuse_unless_finite(value, path, name=name)
        elif not isinstance(value, (Mapping, list, tuple)):
            continue
        elif len(path) >= deepest:
            raise limits.beyond("document_depth", f"{name} is nested too deeply: it")
        else:
            items = value.items() if isinstance(value, Mapping) else enumerate(value)
            waiting += [(item, (*path, key)) for key, item in items if isinstance(item, (Mapping, list, tuple, float))]
    return document


def _refuse_unless_finite(value: float, path: Sequence[Any], *, name: str) -> None:
    if not math.isfinite(value):
        message = f"{name}: {'.'.join(map(str, path)) or 'the document'} is {value}"
        raise InputError(message, "it must be a finite number; leave it out where there is none")
