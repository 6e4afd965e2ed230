"""The YAML loader of edgetune's documents: no aliases, tags or merge keys, and limits on nodes and depth."""

import re
from collections.abc import Hashable
from typing import Any

import yaml

from edgetune import limits
from edgetune.artifacts.files import in_home

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
