"""Reads PTX text into kernels: parameters, registers, variables and instructions, each with its place in the text.

    .visible .entry vadd(.param .u64 a) {         Entry vadd, parameters (a: 8 bytes)
        .reg .b32 %r<3>;                          registers %r0, %r1, %r2 of b32
        mov.u32 %r1, %ctaid.x;                    Instruction mov.u32, operands (%r1, %ctaid.x)
    $L: @%p1 bra $L;                              label $L -> number of the next instruction
    }

Statements in braces of their own, as inline assembly has them, may declare registers anew; these get a name of their
own, ``name@2``. Source of the syntax: NVIDIA, "PTX ISA", chapters 4 and 5.
"""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from edgetune.errors import InputError

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"[^\"\n]*\"", re.DOTALL)
_BODY = re.compile(
    r"(?:\.(?:visible|weak|extern)\s+)*\.(?P<kind>entry|func)\s*(?:\((?P<results>[^)]*)\)\s*)?(?P<name>[\w$]+)\s*"
    r"(?:\((?P<parameters>[^)]*)\))?(?P<bounds>[^{;]*)\{"
)
_FILE = re.compile(r"^\s*\.file\s+(\d+)\s+\"([^\"\n]*)\"", re.MULTILINE)
_LOCATION = re.compile(r"\.loc\s+(\d+)\s+(\d+)")
_VARIABLE = re.compile(
    r"\.(?P<space>shared|global|const|local|param)\b(?P<words>[^;={(]*?)\.(?P<type>pred|[bsuf](?:8|16|32|64|128))\s+"
    r"(?:\.ptr(?:\s+\.(?:global|const|shared|local))?(?:\s+\.align\s+\d+)?\s+)?"
    r"(?P<name>[\w$%]+)\s*(?P<shape>(?:\[\d*\])*)(?:\s*=\s*(?P<value>\{[^}]*\}|[^;]+))?"
)
_REGISTER = re.compile(r"\.reg\s+(?:\.v[24]\s+)?\.(\w+)\s+(.*)", re.DOTALL)
_TOKEN = re.compile(r"\s*(?:([\w$]+)\s*:(?!:)|(\.(?:loc|file)\b[^\n;]*)|([{};])|([^;]*);)")
"""A label, a place in the source, a brace or lonely semicolon, a statement."""
_GUARD = re.compile(r"@\s*(!?)\s*([\w$%]+)\s*")
_WORD = re.compile(r"[%\w$]+")
_OPERAND = re.compile(r"(?:[^,{\[(]|\{[^}]*\}|\[[^\]]*\]|\([^)]*\))+")
"""Up to a comma that stands in no brace."""

MOST_STATEMENTS = 100_000
"""Of one kernel; CUTLASS kernels have up to 20,000."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    Args:
        op: The words of its name, e.g. ``("ld", "global", "f32")``.
        operands: As written, without blanks around.
        guard: Name of the predicate, and whether it is negated; ``None`` where it is not predicated.
        start: Offset of its first character in the text.
        end: Offset behind its semicolon.
        line: From 1.
        written: Its name as written, e.g. ``ld.shared::cta.f32``.
        source: File and line that it was compiled from, where the text says so.
    """

    op: tuple[str, ...]
    operands: tuple[str, ...]
    guard: tuple[str, bool] | None
    start: int
    end: int
    line: int
    written: str
    source: tuple[str, int] | None = None

    @property
    def name(self) -> str:
        """Its name as written."""
        return ".".join(self.op)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable or parameter.

    Args:
        space: ``shared``, ``global``, ``const``, ``local`` or ``param``.
        name: As declared.
        type: Of one element, e.g. ``b8``.
        size_bytes: Of all elements; 0 where a launch gives the size.
        align_bytes: Of its address.
        value: Its first contents.
    """

    space: str
    name: str
    type: str
    size_bytes: int
    align_bytes: int
    value: bytes = b""


@dataclass(slots=True)
class Entry:
    """A kernel, or a function that kernels call.

    Args:
        name: Its symbol.
        bounds: Directives between parameters and body, e.g. ``.reqntid 128``.
        parameters: In order; of a function behind its results.
        span: Offsets of its text, from its first directive to behind the closing brace.
        head: Offsets of its name, and of the place behind its last parameter.
        line: Of its name, from 1.
        first: Offset of the first statement that is no declaration.
        registers: Type of each register by name.
        variables: Declared in its body.
        instructions: In order.
        labels: The number of the instruction behind each label that stands there once.
        rolled: Numbers of the instructions before which ``.pragma "nounroll"`` stands.
        scopes: Statements in braces of their own: offsets of the braces, numbers of the first instruction and of that
            behind the last.
    """

    name: str
    bounds: str
    parameters: tuple[Variable, ...]
    span: tuple[int, int]
    head: tuple[int, int, int]
    line: int
    first: int = 0
    registers: dict[str, str] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    rolled: set[int] = field(default_factory=set)
    scopes: list[tuple[int, int, int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX text.

    Args:
        text: As it was read.
        entries: Its kernels, in order.
        variables: Of the module, by name.
        functions: Those with a body, by name.
    """

    text: str
    entries: tuple[Entry, ...]
    variables: Mapping[str, Variable]
    functions: Mapping[str, Entry]


def is_ptx(name: str, text: str) -> bool:
    """Return whether a file is PTX, by its ending or its first directive."""
    return name.endswith(".ptx") or bool(re.match(r"\.version\b", _blank(text).lstrip()))


def parse(text: str, name: str) -> Module:
    """Read a PTX text.

    Args:
        text: Of one module.
        name: Of the file, for messages.

    Raises:
        InputError: it is no PTX, or ends within a kernel; the message has the line.
    """
    blank = _blank(text)
    if not re.match(r"\s*\.version\b", blank):
        raise InputError(f"{name} is no PTX: it does not begin with .version", "give PTX as compilers write it")
    lines = [found.start() for found in re.finditer("\n", text)]
    files = {found[1]: found[2] for found in _FILE.finditer(text)}
    entries, functions, outside, at = [], {}, [], 0
    for found in _BODY.finditer(blank):
        end = _closing(blank, found.end() - 1)
        if end is None:
            line = bisect_right(lines, found.start()) + 1
            raise InputError(f"{name}:{line}: kernel {found['name']} has no end", "give the whole file")
        outside.append(blank[at : found.start()])
        at = end
        read = _Reader(blank, name, (lines, files), found, end).entry()
        if found["kind"] == "func":
            functions[read.name] = read
        else:
            entries.append(read)
    outside.append(blank[at:])
    declared = re.sub(r"\.func\b.*?(?=\n\.|\Z)", "", "".join(outside), flags=re.DOTALL)
    return Module(text, tuple(entries), {each.name: each for each in variables_in(declared)}, functions)


def variables_in(text: str) -> list[Variable]:
    """Return the variables or parameters that a text declares."""
    return [_variable(found) for found in _VARIABLE.finditer(text)]


def _blank(text: str) -> str:
    """Return a text of the same length with blanks for comments and strings."""
    return _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def _closing(text: str, opening: int) -> int | None:
    """Return the offset behind the brace that closes the one at this offset."""
    depth = 0
    for brace in re.compile(r"[{}]").finditer(text, opening):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return brace.end()
    return None


def _variable(found: re.Match[str]) -> Variable:
    each = max(1, int(found["type"].strip("bsuf") or 8) // 8) if found["type"] != "pred" else 1
    count = math.prod(int(number or 0) for number in re.findall(r"\[(\d*)\]", found["shape"]))
    align = re.search(r"\.align\s+(\d+)", found["words"])
    value = b""
    if found["value"] and re.fullmatch(r"[\s{},\d+-]+", found["value"]):
        value = b"".join(
            (int(number) % (1 << 8 * each)).to_bytes(each, "little") for number in re.findall(r"-?\d+", found["value"])
        )
    return Variable(
        found["space"], found["name"], found["type"], each * count, max(1, int(align[1])) if align else each, value
    )


class _Reader:
    """Reads the body of one kernel or function."""

    def __init__(
        self, text: str, name: str, places: tuple[list[int], Mapping[str, str]], found: re.Match[str], end: int
    ) -> None:
        self._text, self._name = text, name
        self._lines, self._files = places
        self._source: tuple[str, int] | None = None
        self._at, self._end = found.end(), end - 1
        inside = found.end("parameters") if found["parameters"] is not None else -1
        given = f"{found['results'] or ''}, {found['parameters'] or ''}"
        self._entry = Entry(
            found["name"], found["bounds"].strip(), tuple(variables_in(given)),
            (found.start(), end), (found.start("name"), found.end("name"), inside), self._line(found.start("name")),
        )  # fmt: skip
        self._scopes: list[tuple[dict[str, str], int, int]] = []
        """New names, offset of the brace, number of the first instruction."""
        self._labels = Counter[str]()
        self._count = 0

    def entry(self) -> Entry:
        """Return the kernel with its statements."""
        made, text = self._entry, self._text
        while found := _TOKEN.match(text, self._at, self._end):
            label, directive, mark, statement = found.groups()
            start, self._at = found.start(found.lastindex or 0), found.end()
            if text[start] not in ".;" and not made.first:
                made.first = start
            if label:
                self._labels[label] += 1
                made.labels[label] = len(made.instructions)
                if self._labels[label] > 1:  # in braces of their own; a branch to either is to none
                    del made.labels[label]
            elif directive:
                if place := _LOCATION.match(directive):
                    file = self._files.get(place[1])
                    self._source = None if file is None or place[2] == "0" else (file, int(place[2]))
            elif mark == "{":
                self._scopes.append(({}, start, len(made.instructions)))
            elif mark == "}" and self._scopes:
                _, opened, first = self._scopes.pop()
                made.scopes.append((opened, self._at, first, len(made.instructions)))
            elif not mark:
                self._statement(statement, start)
        if left := text[self._at : self._end].strip():
            raise self._error(text.index(left, self._at), "a statement has no end")
        made.first = made.first or self._end
        return made

    def _line(self, offset: int) -> int:
        return bisect_right(self._lines, offset) + 1

    def _error(self, offset: int, what: str) -> InputError:
        return InputError(f"{self._name}:{self._line(offset)}: {what}", "give PTX as compilers write it")

    def _statement(self, statement: str, start: int) -> None:
        self._count += 1
        if self._count > MOST_STATEMENTS:
            raise self._error(start, f"more than {MOST_STATEMENTS} statements")
        if found := _REGISTER.match(statement):
            self._registers(found, start)
        elif statement.startswith(".pragma"):  # of strings, which are blanks here, compilers write "nounroll" only
            self._entry.rolled.add(len(self._entry.instructions))
        elif statement.startswith("."):
            self._entry.variables += variables_in(statement)
        else:
            self._instruction(statement, start)

    def _registers(self, found: re.Match[str], start: int) -> None:
        for each in found[2].split(","):
            name, _, size = each.strip().partition("<")
            count = int("0" + re.sub(r"\D", "", size))
            if count + len(self._entry.registers) > MOST_STATEMENTS:
                raise self._error(start, f"more than {MOST_STATEMENTS} registers")
            for one in [f"{name}{i}" for i in range(count)] if size else [name]:
                own = one
                if self._scopes:
                    own = f"{one}@{len(self._entry.registers)}"
                    self._scopes[-1][0][one] = own
                self._entry.registers[own] = found[1]

    def _instruction(self, statement: str, start: int) -> None:
        renamed = {name: own for scope, *_ in self._scopes for name, own in scope.items()}

        def own(text: str) -> str:
            return _WORD.sub(lambda found: renamed.get(found[0], found[0]), text) if renamed else text

        guard = None
        if found := _GUARD.match(statement):
            guard = (own(found[2]), found[1] == "!")
            statement = statement[found.end() :]
        name, rest, *_ = (*statement.split(None, 1), "", "")
        op = tuple(name.replace("shared::cta", "shared").replace("::", "_").split("."))
        operands = tuple(one.strip() for one in _OPERAND.findall(own(rest)))
        line = self._line(start)
        self._entry.instructions.append(Instruction(op, operands, guard, start, self._at, line, name, self._source))
