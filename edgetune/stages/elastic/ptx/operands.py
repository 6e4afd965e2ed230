"""Operands of PTX instructions as functions from the threads that run them to their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from edgetune.stages.elastic.ptx.arithmetic import DTYPES
from edgetune.stages.elastic.ptx.parse import Entry, Instruction

Reader: TypeAlias = Callable[[Any], Any]
"""From the threads to their values of an operand, or to nothing."""

_ADDRESS = re.compile(r"\[\s*([%\w$@.]+)\s*(?:\+\s*(-?\w+))?\s*\]")
_SPECIAL = re.compile(r"n?(?:cta|t)id\.[xyz]|laneid|lanemask_(?:eq|lt|le|gt|ge)")


def storage(kind: str) -> np.dtype[Any]:
    """Return numpy's type of a register."""
    dtype = DTYPES[kind]
    return dtype if kind == "pred" else np.dtype(f"u{4 if kind == 'f16x2' else dtype.itemsize}")


def parts(operand: str) -> list[str]:
    """Return the elements of a vector operand."""
    return [part.strip() for part in operand.strip("{} \t").split(",")]


class Operands:
    """The registers and symbols of a kernel.

    Args:
        entry: The kernel.
        symbols: Address of each variable and parameter in its state space.
    """

    def __init__(self, entry: Entry, symbols: Mapping[str, int]) -> None:
        self._symbols = symbols
        self._numbers = {name: number for number, name in enumerate(entry.registers)}
        self.types = [storage(kind) for kind in entry.registers.values()]

    def read(self, operand: str, kind: str) -> Reader:
        """Return the reader of an operand as values of a type."""
        dtype = DTYPES[kind]
        if kind == "pred":
            return self.predicate(operand)
        if operand in self._numbers:
            number, own = self._numbers[operand], self.types[self._numbers[operand]]
            width = 4 if kind == "f16x2" else dtype.itemsize
            if own.itemsize == width:
                return lambda threads: threads.registers[number].view(dtype)
            same = np.dtype(f"u{width}")
            return lambda threads: threads.registers[number].astype(same).view(dtype)
        if operand.startswith("%"):
            name = operand[1:]
            if not _SPECIAL.fullmatch(name):
                raise KeyError(operand)
            return lambda threads: threads.special[name].astype(dtype)
        value = self._constant(operand, dtype)
        return lambda _: value

    def _constant(self, operand: str, dtype: np.dtype[Any]) -> Any:
        """Return a number, or the address of a variable, as an array of one element."""
        text = operand.strip()
        if text[:2] in ("0f", "0F", "0d", "0D"):
            value = np.frombuffer(bytes.fromhex(text[2:])[::-1], "f4" if text[1] in "fF" else "f8")
            return value.astype(dtype) if dtype.kind == "f" else value.view(f"u{value.itemsize}").astype(dtype)
        if text == "WARP_SZ":
            return np.array([32]).astype(dtype)
        name, _, more = text.partition("+")
        if name.strip() in self._symbols:
            return np.array([self._symbols[name.strip()] + int(more or 0)]).astype(dtype)
        if dtype.kind == "f" and "." in text:
            return np.array([float(text)], dtype)
        bits = dtype.itemsize * 8
        number = int(text.rstrip("U"), 0) % (1 << bits)
        return np.array([number], f"u{dtype.itemsize}").view(dtype)

    def predicate(self, operand: str) -> Reader:
        """Return the reader of a predicate, which may be negated, or of a constant in its place."""
        name = operand.lstrip("!").strip()
        if name in self._numbers:
            number = self._numbers[name]
            if operand.startswith("!"):
                return lambda threads: ~threads.registers[number]
            return lambda threads: threads.registers[number]
        value = np.array([bool(int(name, 0)) != operand.startswith("!")])
        return lambda _: value

    def writer(self, operand: str, kind: str) -> Callable[[Any, Any], None]:
        """Return what writes values of a type to a register; wider registers get them extended."""
        if operand == "_":
            return lambda *_: None
        number = self._numbers[operand]
        own, dtype = self.types[number], DTYPES[kind]
        if kind in ("pred", "f16x2") or own.itemsize == dtype.itemsize:
            return lambda threads, value: threads.put(number, np.ascontiguousarray(value))
        wide = np.dtype(f"{dtype.kind if dtype.kind == 'i' else 'u'}{own.itemsize}")
        bits = np.dtype(f"u{dtype.itemsize}")
        if dtype.kind == "i":
            return lambda threads, value: threads.put(number, np.asarray(value).astype(wide))
        return lambda threads, value: threads.put(number, np.ascontiguousarray(value).view(bits).astype(wide))

    def put(self, each: Instruction, kind: str, compute: Callable[..., Any], reads: Sequence[Reader]) -> Reader:
        """Return what writes the result of an operation on some operands to the first one, as a type."""
        write = self.writer(each.operands[0], kind)

        def run(threads: Any) -> None:
            write(threads, compute(*(read(threads) for read in reads)))

        return run

    def operands(self, each: Instruction, kind: str) -> list[Reader]:
        """Return the readers of all operands behind the first."""
        return [self.read(operand, kind) for operand in each.operands[1:]]

    def address(self, operand: str) -> tuple[Reader, int]:
        """Return the reader of an address in brackets, and what is added to it."""
        found = _ADDRESS.fullmatch(operand)
        if found is None:
            raise ValueError("its address")
        kind = "u64"
        if found[1] in self._numbers:
            kind = f"u{self.types[self._numbers[found[1]]].itemsize * 8}"
        return self.read(found[1], kind), int(found[2] or "0", 0)
