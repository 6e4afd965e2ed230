"""What each kernel needs, as ``ptxas -v`` reports it, and the names of kernels in their symbols."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from edgetune.stages.elastic.gpu import Resources

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_LENGTH = re.compile(r"\d+")
_CUMULATIVE = re.compile(r"(\d+) bytes cumulative stack size")


def resources_in(log: str) -> dict[str, Resources]:
    """Return the needs of kernels, by symbol, from the report of ``ptxas -v``.

    Source of the wording: NVIDIA, "CUDA Compiler Driver NVCC", section on printing code generation statistics.
    """
    found: dict[str, Resources] = {}
    frames: dict[str, tuple[int, int]] = {}
    entry = function = ""
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry = match[1]
        elif match := _PROPERTIES.search(line):
            function = match[1]
        elif match := _STACK.search(line):
            frames[function] = int(match[1]), int(match[2]) + int(match[3])
        elif match := _USED.search(line):
            stack_bytes, spill_bytes = frames.get(entry, (0, 0))
            shared, cumulative = _SHARED.search(line), _CUMULATIVE.search(line)
            found[entry] = Resources(
                int(match[1]),
                int(shared[1]) if shared else 0,
                max(stack_bytes, int(cumulative[1]) if cumulative else 0),
                spill_bytes,
            )
    return found


def symbols_by_name(found: Iterable[str]) -> dict[str, str]:
    """Return symbols by the plain names in them, without names of several symbols."""
    names = {symbol: _plain_name(symbol) for symbol in found}
    often = Counter(names.values())
    return {name: symbol for symbol, name in names.items() if often[name] == 1}


def _plain_name(symbol: str) -> str:
    """Return the name in a symbol: the last of a scope (Itanium C++ ABI, names are preceded by their lengths)."""
    name, rest = symbol, symbol.removeprefix("_Z").removeprefix("N")
    while rest != symbol and (match := _LENGTH.match(rest)):
        name, rest = rest[match.end() :][: int(match[0])], rest[match.end() + int(match[0]) :]
        if not symbol.startswith("_ZN"):
            break
    return name
