"""YAML documents read strictly and written readably.

Strictly: a key given twice is an error, not a silent loss of the first; aliases are refused; a number is a number also
when written ``8e-2``; a date stays a text. Readably: innermost mappings on one line, no tags, order kept.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any

from edgetune.errors import InputError

_FLOAT = re.compile(
    r"[-+]?(?:\d[\d_]*\.[\d_]*(?:[eE][-+]?\d+)?|\.\d[\d_]*(?:[eE][-+]?\d+)?|\d[\d_]*[eE][-+]?\d+"
    r"|\.(?:inf|Inf|INF))$|\.(?:nan|NaN|NAN)$"
)

_LINE_ENDS = "\x85\u2028\u2029"


class Block(dict[str, Any]):
    """A mapping written with one key per line, also when it holds nothing but plain values."""


def load_yaml(text: str, *, name: str) -> Any:
    """Return the one document in ``text``.

    Raises:
        InputError: not YAML, a key given twice, an alias, more than one document; the line is named.
    """
    import yaml

    try:
        return yaml.load(text, Loader=_loader())  # a SafeLoader
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
    """Return ``document``, built of plain values, as YAML in the order of its keys."""
    import yaml

    return str(
        yaml.dump(document, Dumper=_dumper(), sort_keys=False, default_flow_style=None, allow_unicode=True, width=120)
    )


@cache
def _loader() -> Any:
    import yaml

    class Strict(yaml.SafeLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                event: Any = self.peek_event()  # type: ignore[no-untyped-call]
                raise yaml.composer.ComposerError(None, None, "aliases are not used here", event.start_mark)
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
            seen: set[str] = set()
            for key, _ in node.value:
                if key.value in seen:
                    problem = f"the key {key.value!r} is given twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                if isinstance(key.value, str):
                    seen.add(key.value)
            return super().construct_mapping(node, deep)

    unwanted = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:float")
    Strict.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in unwanted]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Strict.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))
    return Strict


@cache
def _dumper() -> Any:
    import yaml

    class Readable(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
            return True

    # A text that this reader would take for a number is quoted, as is one with letters that YAML takes for line ends.
    Readable.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))
    Readable.add_representer(
        str,
        lambda dumper, text: dumper.represent_scalar(
            "tag:yaml.org,2002:str", text, style='"' if any(letter in text for letter in _LINE_ENDS) else None
        ),
    )
    Readable.add_representer(
        Block, lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data.items(), flow_style=False)
    )
    return Readable
