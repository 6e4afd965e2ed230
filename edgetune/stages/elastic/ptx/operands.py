"""Writes the statements of a PTX kernel as Python on NumPy arrays, which ``decode`` compiles.

    fma.rn.f32 %f3, %f1, %f2, 0f3F800000    v1 = R[4]; v2 = R[5]; v3 = k1(v1, v2, k2)     in a segment without branches
    @%p1 add.s32 %r2, %r2, 1                v6 = where(v4, v5 + k3, v5); R[7] = v6

An array has an element for each thread that runs the segment, or one for all of them. Registers keep their bits between
segments as unsigned numbers.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from edgetune.stages.elastic.ptx.formats import DTYPES, PAIRS
from edgetune.stages.elastic.ptx.parse import Entry, Instruction
from edgetune.stages.elastic.ptx.thread_group import CLOCKS, SPECIAL

Operation: TypeAlias = Callable[..., Any]

_ADDRESS = re.compile(r"\[\s*([%\w$@.]+)\s*(?:\+\s*(-?\w+))?\s*\]")


def parts(operand: str) -> list[str]:
    """Return the elements of a vector operand."""
    return [part.strip() for part in operand.strip("{} \t").split(",")]


def pairs(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return registers as rows of two numbers."""
    return np.ascontiguousarray(value).view(dtype).reshape(-1, 2)


def whole(value: Any) -> Any:
    """Return rows of numbers as registers."""
    value = np.ascontiguousarray(value)
    return value.view(f"u{value.itemsize * value.shape[-1]}").reshape(-1)


@dataclass(slots=True)
class Statements:
    """The statements of a segment.

    Args:
        lines: Each with the instruction that it belongs to.
        used: Registers that are read before they are written.
        written: Registers that are written.
        known: Names of their values at the end, by type.
    """

    lines: list[tuple[str, Instruction | None]] = field(default_factory=list)
    used: set[int] = field(default_factory=set)
    written: set[int] = field(default_factory=set)
    known: dict[int, dict[np.dtype[Any], str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rule:
    """What an instruction computes or does.

    Args:
        operands: Those that count: the first is written, if there are results, to registers of a vector or with ``|``
            between them; the others are read.
        results: Types of the results; of a vector the one of all.
        compute: From values of operands to the result, or to as many as registers are written; ``None`` is a copy.
        reads: Types of operands that are read; of a vector the one of each register, ``[]`` of an address.
        acts: Whether it does more than compute: it gets the threads first, and returns a sequence of results.
    """

    operands: Sequence[str]
    results: Sequence[str]
    compute: Operation | None
    reads: Sequence[str]
    acts: bool = False


class Operands:
    """Writes statements on the registers and symbols of a kernel.

    Args:
        entry: The kernel.
        symbols: Address of each variable and parameter in its state space.

    Attributes:
        names: What the statements use besides their own variables.
        now: Statements of the present segment.
        at: The present instruction.
        guard: Its predicate, as an expression.
    """

    def __init__(self, entry: Entry, symbols: Mapping[str, int]) -> None:
        self._symbols = symbols
        self._numbers = {name: number for number, name in enumerate(entry.registers)}
        declared = [DTYPES[kind].itemsize * (2 if kind in PAIRS else 1) if kind != "pred" else 0
                    for kind in entry.registers.values()]  # fmt: skip
        self.types = [np.dtype(f"u{size_bytes}" if size_bytes else bool) for size_bytes in declared]
        self.names: dict[str, Any] = {"where": np.where, "guarded": guarded}
        self._count = 0
        self.guard: str | None = None
        self.at: Instruction | None = None
        self.now = Statements()

    def bind(self, thing: Any) -> str:
        """Return the name by which statements reach something."""
        name = f"k{len(self.names)}"
        self.names[name] = thing
        return name

    def let(self, expression: str) -> str:
        """Write a statement that names the value of an expression; return the name."""
        self._count += 1
        self.now.lines.append((f"v{self._count} = {expression}", self.at))
        return f"v{self._count}"

    def read(self, operand: str, kind: str) -> str:
        """Return the expression of an operand as values of a type."""
        dtype = DTYPES[kind]
        if kind == "pred":
            return self.predicate(operand)
        if kind in PAIRS:
            return self.let(f"{self.bind(pairs)}({self.read(operand, f'u{dtype.itemsize * 16}')}, {self.bind(dtype)})")
        if operand in self._numbers:
            return self._register(self._numbers[operand], dtype)
        if operand.startswith("%"):
            if operand[1:] not in SPECIAL and operand[1:] not in CLOCKS:
                raise KeyError(operand)
            value = self.let(f"T.of({operand[1:]!r})")
            return value if dtype == np.uint32 else self.let(f"{value}.astype({self.bind(dtype)})")
        return self.bind(self._constant(operand, dtype))

    def _register(self, number: int, dtype: np.dtype[Any]) -> str:
        own = self.types[number]
        if number not in self.now.known:
            self.now.used.add(number)
            self.now.known[number] = {own: self.let(f"R[{number}]")}
        known = self.now.known[number]
        if dtype not in known:
            some = next(iter(known.values()))
            if own.itemsize != dtype.itemsize:  # the lowest bits, or zeros above
                some, same = self._register(number, own), np.dtype(f"u{dtype.itemsize}")
                known[dtype] = self.let(f"{some}.astype({self.bind(same)}).view({self.bind(dtype)})")
            else:
                known[dtype] = self.let(f"{some}.view({self.bind(dtype)})")
        return known[dtype]

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

    def mask(self, operand: str) -> Any:
        """Return the bits of an operand, or the number of the register that holds them when a segment begins."""
        if operand not in self._numbers:
            return self._constant(operand, np.dtype("u4"))
        self.now.used.add(self._numbers[operand])
        return self._numbers[operand]

    def predicate(self, operand: str) -> str:
        """Return the expression of a predicate, which may be negated, or of a constant in its place."""
        name = operand.lstrip("!").strip()
        if name in self._numbers:
            value = self._register(self._numbers[name], np.dtype(bool))
            return self.let(f"~{value}") if operand.startswith("!") else value
        return self.bind(np.array([bool(int(name, 0)) != operand.startswith("!")]))

    def write(self, operand: str, kind: str, expression: str) -> None:
        """Write values of a type to a register; wider registers get them extended."""
        if operand == "_":
            return
        number, dtype = self._numbers[operand], DTYPES[kind]
        own = self.types[number]
        if kind in PAIRS:
            expression, dtype = f"{self.bind(whole)}({expression})", np.dtype(f"u{dtype.itemsize * 2}")
        if own.itemsize != dtype.itemsize and kind != "pred":
            if dtype.kind == "f":
                expression, dtype = f"{expression}.view({self.bind(np.dtype(f'u{dtype.itemsize}'))})", np.dtype("u1")
            dtype = np.dtype(f"{dtype.kind}{own.itemsize}")
            expression = f"{expression}.astype({self.bind(dtype)})"
        if self.guard is not None:
            before = self._register(number, dtype)
            expression = f"where({self.guard}, {expression}, {before})"
        self.now.written.add(number)
        self.now.known[number] = {dtype: self.let(expression)}

    def perform(self, rule: Rule | None) -> None:
        """Write what an instruction does.

        Raises:
            KeyError: an operand is not known here; likewise IndexError and ValueError.
        """
        if rule is None:
            return
        writes, operands = list[tuple[str, str]](), rule.operands
        if rule.results:
            first, *operands = operands
            vector = first.startswith("{")
            targets = parts(first) if vector else first.split("|")
            writes = [*zip(targets, [*rule.results] * (len(targets) if vector else 1), strict=False)]
        reads = [self.address(one) if kind == "[]" else self.read(one, kind)
                 for operand, kind in zip(operands, rule.reads, strict=True)
                 for one in (parts(operand) if operand.startswith("{") else [operand])]  # fmt: skip
        run = self.bind(rule.compute)
        value = reads[0] if rule.compute is None else f"{run}({', '.join([*['T'] * rule.acts, *reads])})"
        if rule.acts and self.guard is not None:
            types = ", ".join(self.bind(DTYPES[kind]) for _, kind in writes)
            value = f"guarded({run}, T, {self.guard}, [{', '.join(reads)}], [{types}])"
        several = rule.acts or len(writes) > 1
        value = self.let(value) if several else value
        for place, (target, kind) in enumerate(writes):
            self.write(target, kind, f"{value}[{place}]" if several else value)

    def address(self, operand: str) -> str:
        """Return the expression of an address in brackets."""
        found = _ADDRESS.fullmatch(operand)
        if found is None:
            raise ValueError("its address")
        name, offset, bits = found[1], int(found[2] or "0", 0), 64
        if name not in self._numbers:
            return self.read(f"{name}+{offset}" if offset else name, "u64")
        bits = self.types[self._numbers[name]].itemsize * 8
        value = self.read(name, f"u{bits}")
        return self.let(f"{value} + {self.read(str(offset), f'u{bits}')}") if offset else value

    def ends(self, statements: Statements, live: int) -> list[str]:
        """Return the statements that keep registers which are read behind a segment, the bits of a number."""
        found = []
        for number in sorted(each for each in statements.written if live >> each & 1):
            known, own = statements.known[number], self.types[number]
            name = known.get(own)
            found.append(f"R[{number}] = {name or f'{next(iter(known.values()))}.view({self.bind(own)})'}")
        return found


def guarded(run: Operation, threads: Any, guard: Any, values: Sequence[Any], types: Sequence[Any]) -> Sequence[Any]:
    """Have those of some threads do something for which a predicate holds; the others get zeros, which nobody reads."""
    chosen = guard.nonzero()[0]
    if not chosen.size:
        return [np.zeros(1, each) for each in types]
    if chosen.size == guard.size:
        found: Sequence[Any] = run(threads, *values)
        return found
    found = run(threads.only(chosen), *(each if len(each) == 1 else each.take(chosen, axis=0) for each in values))
    wide = [np.zeros((threads.size, *each.shape[1:]), each.dtype) for each in found or ()]
    for target, each in zip(wide, found or (), strict=True):
        target[chosen] = each
    return wide
