"""The plan as a YAML document, and back: every key known, every figure possible."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import typing
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from edgetune.artifacts.header import Header
from edgetune.artifacts.json_format import checked_values
from edgetune.artifacts.mode import KNOBS
from edgetune.artifacts.plain import plain
from edgetune.artifacts.plan import Plan
from edgetune.artifacts.versions import MADE_BY, Raw
from edgetune.artifacts.yaml_document import BlockMapping, dump_yaml
from edgetune.errors import InputError

if TYPE_CHECKING:
    from pydantic import ValidationError

Noun = TypeVar("Noun")

_HEAD = tuple(field.name for field in dataclasses.fields(Header))
_OPEN = ("inputs", "conditions", "warnings", "numbers")
"""Mappings whose keys are free."""
_UNSIGNED = ("points_measured", "known_points", "seed", "margin")
"""Numbers of a plan that may be zero; every other one is above zero."""


def plan_text(plan: Plan) -> str:
    """Return the document: the head, then problem, configuration, measured, predicted and search; nothing empty."""
    whole = plain(plan)
    head = whole.pop("header")
    head.update({key: BlockMapping(head[key]) for key in ("inputs", "conditions")})
    sections = {key: _present(value) for key, value in whole.items() if value is not None}
    order = ("problem", "configuration", "measured", "predicted", "search")
    if plan.problem.margin == 0:
        del sections["problem"]["margin"]
    if not plan.problem.epochs_to_target:
        del sections["problem"]["epochs_to_target"]
    mode = sections["configuration"]["mode"]
    mode.update({knob: int(value) for knob, value in mode.items() if knob in KNOBS and float(value).is_integer()})
    return dump_yaml(BlockMapping({**head, **{key: sections[key] for key in order if key in sections}}))


def _present(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _present(item) for key, item in value.items() if item is not None}


def raw_document(document: Any, *, kind: str, name: str) -> Raw:
    """Return the head and the body of a parsed YAML document of that kind.

    Raises:
        InputError: the document is not a mapping.
    """
    if not isinstance(document, dict):
        message = f"{name} is not a {kind}: it holds {type(document).__name__}, not keys and values"
        raise InputError(message, f"give it a {kind}, as `{MADE_BY[kind]}` writes")
    head = {key: value for key, value in document.items() if key in _HEAD}
    return Raw(head, {key: value for key, value in document.items() if key not in _HEAD})


def plan_of(raw: Raw, *, name: str) -> Plan:
    """Return the validated plan.

    Raises:
        InputError: an unknown key, a missing one, a value of the wrong type, a number that is not finite and positive.
    """
    document = {"header": {"created": "unknown", "tool": "unknown", **raw.head}, **raw.body}
    refuse_unknown(document, Plan, (), name=name)
    refuse_impossible(document, (), name=name)
    return validated(document, Plan, name=name, example="see the plan that `edgetune search` writes")


def validated(document: Mapping[str, Any], kind: type[Noun], *, name: str, example: str) -> Noun:
    """Return the dataclass that a document with known keys and possible numbers describes.

    Args:
        document: Keys and values.
        kind: The dataclass.
        name: What messages call the document.
        example: Where a right one can be seen, for the hint of a missing key.

    Raises:
        InputError: a missing key, a value of the wrong type, or a number that is not finite.
    """
    from pydantic import TypeAdapter, ValidationError

    checked_values(document, name=name)
    try:
        # through JSON: in its strict mode a mapping is a dataclass and a list is a tuple, yet "16" is no number
        return TypeAdapter(kind).validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        raise _why_invalid(error, document, name=name, example=example) from None
    except (TypeError, ValueError) as error:
        what = f"{name} is not a {kind.__name__.lower()}: {error}"
        raise InputError(what, "use texts, numbers, lists and mappings only") from None


def _why_invalid(error: ValidationError, document: Mapping[str, Any], *, name: str, example: str) -> InputError:
    """Return the error that names the first key at fault; ``example`` says where a right one can be seen.

    Where a value may be of several kinds, each of them has errors. That which got furthest tells what was meant.
    """
    errors = error.errors(include_url=False)
    paths = [_path_there(each["loc"], document) for each in errors]
    within = [place for place, path in enumerate(paths) if path[: len(paths[0])] == paths[0]]
    chosen = max(within, key=lambda place: len(paths[place]))
    found, path = errors[chosen], paths[chosen]
    if found["type"] == "missing":
        return InputError(f"{name} has no {_dotted((*path, found['loc'][-1]))}", example)
    key = _dotted(path)
    hint = found["msg"].replace("Input should be", f"{key} must be")
    if found["type"] == "string_type" and isinstance(found["input"], int | float):
        hint = f"{key} is a text; a quantity is written with its unit, e.g. 80ms, 30W, 4KiB"
    return InputError(f"{name}: {key} is {found['input']!r}", hint)


def _path_there(loc: tuple[str | int, ...], document: Any) -> tuple[str | int, ...]:
    """Return the parts of an error's place that a document has; others name the kind that a value was taken for."""
    path: list[str | int] = []
    for part in loc:
        try:
            document = document[part]
        except (KeyError, IndexError, TypeError):
            continue
        path.append(part)
    return tuple(path)


def refuse_unknown(value: Any, kind: Any, path: tuple[str, ...], *, name: str) -> None:
    """Refuse a key that no field of the dataclass has; a mapping whose keys are free is not looked into."""
    classes = [c for c in (kind, *typing.get_args(kind)) if dataclasses.is_dataclass(c)]
    if not classes or not isinstance(value, Mapping):
        return
    hints = typing.get_type_hints(classes[0])
    for key, item in value.items():
        if key not in hints:
            near = difflib.get_close_matches(str(key), hints, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(h for h in hints if h != 'header')}"
            raise InputError(f"{name}: unknown key {_dotted((*path, str(key)))!r}", hint)
        refuse_unknown(item, hints[key], (*path, key), name=name)


def refuse_impossible(value: Any, path: tuple[str, ...], *, name: str, unsigned: Collection[str] = _UNSIGNED) -> None:
    """Refuse a number that is not finite, or not above zero where zero makes no sense: all but the ``unsigned``."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key not in _OPEN:
                refuse_impossible(item, (*path, str(key)), name=name, unsigned=unsigned)
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and path[-1] != "version":
        zero_is_fine = path[-1] in unsigned
        if not math.isfinite(value) or value < 0 or (value == 0 and not zero_is_fine):
            rule = "zero or more" if zero_is_fine else "above zero"
            message = f"{name}: {_dotted(path)} is {value}"
            raise InputError(message, f"it must be a finite number {rule}; leave it out where there is none")
        if path[-1] == "margin" and value > 1:
            raise InputError(f"{name}: {_dotted(path)} is {value}", "a margin is a share between 0 and 1")


def _dotted(path: tuple[str | int, ...]) -> str:
    return ".".join(str(part) for part in path if part != "header")
