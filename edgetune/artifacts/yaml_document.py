"""YAML documents read strictly and written readably.

Strictly: a key given twice is an error, not a silent loss of the first; aliases and tags are refused; a
number is a number also when written ``8e-2``; a date and ``1:30`` stay texts. Nodes and depth are limited.
Readably: innermost mappings on one line, no tags, order kept.

Converts values to those of JSON and YAML: no tuples, NumPy scalars, paths, non-finite numbers or invalid Unicode.
"""

import dataclasses
import math
from collections.abc import Mapping
from datetime import date
from enum import Enum
from functools import cache, partial
from pathlib import PurePath
from typing import Any, cast

from edgetune.artifacts.files import storable
from edgetune.errors import InputError
from edgetune.visible import is_visible, visible_in_yaml


class BlockMapping(dict[str, Any]):
    """A mapping written with one key per line, even if it has only plain values."""


def load_yaml(text: str, *, name: str) -> Any:
    """Return the one document in ``text``.

    Raises:
        InputError: the text is not YAML, has a duplicate key, an alias, a tag or several documents, or exceeds the
            limits on nodes and depth; the line is named.
    """
    import yaml

    from edgetune.artifacts.yaml_loader import StrictLoader

    try:
        return yaml.load(text, Loader=cast("Any", partial(StrictLoader, name)))  # a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}" if mark else ""
        words = [error.context, error.problem] if (error.problem or "").startswith("but") else [error.problem]
        message = f"{name}{where}: {' '.join(filter(None, words)) or 'not valid YAML'}"
        raise InputError(message, "correct the line; keys are unique and indented with spaces") from None
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{name} is not valid YAML: {reason}", "is it a text file?") from None
    except (RecursionError, ValueError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"{name} is not valid YAML: {reason}", "correct it, or write it again") from None


def dump_yaml(document: Mapping[str, Any]) -> str:
    """Return ``document``, built of plain values, as visible YAML in the order of its keys."""
    return _dumped(document, default_flow_style=None, width=120)


def dump_value(value: Any) -> str:
    """Return a plain value as visible YAML of one line."""
    return _dumped([value], default_flow_style=True, width=math.inf).strip()[1:-1]


def _dumped(document: Any, **layout: Any) -> str:
    import yaml

    return visible_in_yaml(yaml.dump(document, Dumper=_dumper(), sort_keys=False, allow_unicode=True, **layout))


@cache
def _dumper() -> Any:
    import yaml

    from edgetune.artifacts.yaml_loader import FLOAT

    class Readable(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
            return True

    # A text that this reader would take for a number is quoted, as is one that needs escapes to be seen.
    Readable.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+0123456789."))
    Readable.add_representer(
        str,
        lambda dumper, text: dumper.represent_scalar(
            "tag:yaml.org,2002:str", storable(text), style=None if is_visible(text) else '"'
        ),
    )
    Readable.add_representer(
        BlockMapping,
        lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=False),
    )
    return Readable


def plain(value: Any) -> Any:
    """Return ``value`` built of dict, list, str, int, float, bool and None only.

    A number that is not finite becomes ``None``: it is not a measurement.

    Raises:
        TypeError: for a value that has no such form, e.g. an open file.
    """
    if isinstance(value, Enum) or hasattr(value, "tolist"):  # NumPy values, without importing NumPy
        return plain(value.value if isinstance(value, Enum) else value.tolist())
    if value is None or isinstance(value, (bool, str, int, float)):
        return _plain_scalar(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {storable(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if not isinstance(value, (PurePath, date)):
        raise TypeError(f"cannot be stored in an artifact: {type(value).__name__} {value!r}")
    return storable(str(value))


def _plain_scalar(value: Any) -> Any:
    """Return the built-in scalar of a subclass, e.g. ``float`` of ``numpy.float64``."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return storable(str(value)) if isinstance(value, str) else int(value)
