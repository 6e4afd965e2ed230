"""Values that no file should hold and every reader must survive: numbers, names, and pieces of YAML."""

from __future__ import annotations

NUMBERS = (
    0, -1, 1, 2, 3.5, -0.0, 0.1, 1e-308, 5e-324, 1e308, -1e308, 10**6, 10**9, 2**31, 2**31 - 1, 2**32, 2**53 + 1,
    2**63, 2**63 - 1, -(2**63), 2**64, 10**30, 10**400, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip

NUMBER_TEXTS = (
    "0", "-1", "-0", "00", "1e3", "1e308", "1e309", "-1e308", "1e-400", "nan", "NaN", "inf", "-inf", "Infinity",
    "9999999999999999999999", "1" * 400, "0x10", "1_000", "1,5", "1.2.3", "1e", "+5", ".5", "5.", "١٢", "²", "1 2", "",
    " ", "-", "1:30:00", "true", "null", "~",
)  # fmt: skip

HOSTILE = (
    "\x1b]0;owned\x07", "\x1b[2J\x1b[31m", "\x9b31m", "\x07\x08\x7f", "a\u202egnp.exe", "\u2066x\u2069", "\u200b",
    "a\nb", "a\r\nerror: b\nhint: c", "\tx\t", "x" * 5000, "é" * 300, "\U0001f600", "\ufeff", "\u2028", "%s%n%d",
    "{0.__class__}", "${HOME}", "$(id)", "`id`", "../../../../etc/passwd", "/etc/passwd", "/dev/null", "-", "--help",
    "zoo:", "zoo:x", "twin:", "recorded:", "trace:", "llm:", "*", "[x", "a,b", "a=b", "=", ":", "::", " ", "",
    "nan", "None", "null", "\\", "\"", "'", "\x00",
)  # fmt: skip
"""Names: what steers a terminal, what looks like a path, a word of edgetune's own, or nothing at all."""

STRUCTURES = (
    None, True, False, [], {}, [[]], [None], {"": None}, {"a": 1}, [1, "a",
    None], [[1, 2], [3]], {"kind": "plan"}, {1: 2},
)  # fmt: skip
"""In the place of anything."""

YAML_PIECES = (
    "!!bool x", "!!int x", "!!float x", "!!null x", "!!timestamp x", "!!binary '*'", "!!set {a, b}", "!!omap [a: 1]",
    "!!pairs [a: 1]", "!!str [a]", "!!map [a]", "!!seq {a: 1}", "!!python/object/apply:os.system [id]", "!unknown x",
    "!<x> y",
    "!!merge x", "!!value x", "2026-01-02", "2026-13-45", "1:30:00", "190:20:30", "0o17", "0b11", "0x1G", "1_0", "=",
    "<<",
    "? [a]\n  : b", "{? [a] : b}", "{[a]: b}", "{{a: 1}: b}", "{<<: {a: 1}}", "{<<: [a]}", "{<<: 5}", "&a [*a]",
    "*missing",
    "&a x", "[&a {x: 1}, *a]", "|\n  text", ">\n  text", "\"\\x00\"", "\"\\uD800\"", "\"\\e[31m\"", "@x", "`x`",
    "%x", "- x",
    "{a: 1, a: 2}", "!!float nan", "-.inf", ".NaN", "+.inf", "1e400",
    "[" * 200 + "]" * 200, "{a: " * 100 + "1" + "}" * 100,
    "\"unfinished", "[unfinished", "{unfinished", "? x", "---\nx", "...", "# gone", "!!int 0x", "!!int ''",
    "!!float ''",
    "!!bool ''", "!!timestamp 2026-99-99", "!!int '1:99999999999999999999'",
)  # fmt: skip
"""Written in the place of a value: tags that raise, keys that are no texts, anchors, and text that is no YAML."""
