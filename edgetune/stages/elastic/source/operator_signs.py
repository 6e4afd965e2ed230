"""Signs of the operators that an operation may call.

not a       !       a word for a sign
a != b      !=      or ==, whose result C++20 turns round
a[i]        []
"""

from __future__ import annotations

from edgetune.stages.elastic.source.syntax import Node, goes_through, squeezed

OPERATIONS = ("binary_expression", "unary_expression", "pointer_expression", "update_expression",
              "subscript_expression", "assignment_expression", "field_expression", "comma_expression")  # fmt: skip
"""Nodes of operations."""
_SPELLED = {"not": "!", "compl": "~", "and": "&&", "or": "||", "bitand": "&", "bitor": "|", "xor": "^", "not_eq": "!=",
            "and_eq": "&=", "or_eq": "|=", "xor_eq": "^="}  # fmt: skip
REWRITTEN = {"==": "==", "!=": "==", "<": "<=>", "<=": "<=>", ">": "<=>", ">=": "<=>", "<=>": "<=>"}
"""Operators that C++20 takes for others, with their operands in any order."""


def signs(node: Node) -> list[str]:
    """Return the signs of the operators that an operation may be."""
    if node.type == "subscript_expression":
        return ["[]"]
    if node.type == "field_expression":
        return ["->" if goes_through(node) else "."]
    sign = next((squeezed(each) for each in node.children if not each.is_named), "")
    sign = _SPELLED.get(sign, sign)
    return list(dict.fromkeys([sign, REWRITTEN.get(sign, sign)]))
