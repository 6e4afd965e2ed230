"""YAML documents read strictly and written readably.

Strictly: a key given twice is an error, not a silent loss of the first; aliases and tags are refused; a
number is a number also when written ``8e-2``; a date and ``1:30`` stay texts. Nodes and depth are limited.
Readably: innermost mappings on one line, no tags, order kept.

Converts values to those of JSON and YAML: no tuples, NumPy scalars, paths, non-finite numbers or invalid Unicode.

The YAML loader of edgetune's documents: no aliases, tags or merge keys, and limits on nodes and depth.
"""

import dataclasses
import math
import re
from collections.abc import Hashable, Mapping
from datetime import date
from enum import Enum
from functools import cache, partial
from pathlib import PurePath
from typing import Any, cast

import yaml

from edgetune import limits
from edgetune.artifacts.files import in_home, storable
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


FLOAT = re.compile(
    r"[-+]?(?:\d[\d_]*\.[\d_]*(?:[eE][-+]?\d+)?|\.\d[\d_]*(?:[eE][-+]?\d+)?|\d[\d_]*[eE][-+]?\d+"
    r"|\.(?:inf|Inf|INF))$|\.(?:nan|NaN|NAN)$"
)
_INT = re.compile(r"[-+]?(?:0|[1-9][\d_]{0,39}|0x[\da-fA-F]{1,32}|0b[01]{1,128})$")
"""Longer ones are texts: no quantity has 40 digits. So are ``1:30`` (90 in YAML 1.1) and ``010`` (8 in YAML 1.1)."""
_NO_TEXT = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_PLAIN = ("null", "bool")
"""What else a text without quotes may be, as YAML 1.1 says; not a timestamp, a merge key or a default value."""
_TEXT_TAGS = (None, "!", "tag:yaml.org,2002:str")


class StrictLoader(yaml.SafeLoader):
    """Reads one document.

    Args:
        document: Its name in messages.
        stream: Its text.
    """

    def __init__(self, document: str, stream: str) -> None:
        super().__init__(stream)
        self._document = document
        self._nodes = self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return the next node, and refuse those that documents must not have."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "aliases are not used here", event.start_mark)
        if event.tag not in _TEXT_TAGS:
            problem = f"could not determine a constructor for the tag {event.tag!r}: tags are not used here"
            raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
        if isinstance(event, yaml.ScalarEvent) and _NO_TEXT.search(event.value):
            event.value = _PAIR.sub(
                lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), event.value
            )  # JSON writes letters beyond 16 bits as pairs of escapes
        if _NO_TEXT.search(getattr(event, "value", None) or ""):
            problem = "a text holds half of a surrogate pair, which is no letter"
            raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
        self._nodes += 1
        self._depth += 1
        if self._nodes > limits.limit("document_nodes"):
            raise limits.beyond("document_nodes", self._document)
        if self._depth > limits.limit("document_depth"):
            where = f"line {event.start_mark.line + 1}"
            raise limits.beyond("document_depth", f"{self._document} is nested too deeply: {where}")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_scalar(self, node: Any) -> Any:
        """Return the text of a scalar; a file in ``~/`` is in the home folder."""
        return in_home(super().construct_scalar(node))

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """Return a mapping of unique, scalar keys."""
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                problem = "a key is a list or a mapping, and no text"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            if key.tag in _WANTED:
                problem = f"the key {key.value!r} is no text in YAML: quote it"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            if key.value in seen:
                problem = f"the key {key.value!r} is given twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_WANTED = [f"tag:yaml.org,2002:{name}" for name in _PLAIN]
StrictLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag in _WANTED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
StrictLoader.add_implicit_resolver("tag:yaml.org,2002:int", _INT, list("-+0123456789"))
StrictLoader.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+0123456789."))
