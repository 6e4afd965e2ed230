"""Writes the body of a kernel for several logical threads in a physical one: copies with own registers, in step.

    ld.param.u32 %r1, [n]              ld.param.u32 %r1, [n]                        the same for all: written once
    mov.u32 %r2, %tid.x                mov.u32 %edgetune0_r2, %edgetune_tx0         a copy for each
                                       mov.u32 %edgetune1_r2, %edgetune_tx1
    setp.ge.u32 %p1, %r2, %r1          setp.ge.u32 %edgetune0_p1, ... (twice)
    @%p1 bra $L                        @%edgetune0_p1 bra ...  all up to $L         threads go their own ways: one copy
    st.shared.u32 [%r3], %r2           @%edgetune1_p1 bra ...  all up to $L         behind the other
    bar.sync 0                         bar.sync 0                                   for all

Where some threads return and others go on to a barrier, those that returned have to come to it too, as a physical
thread ends with its last logical block only. All barriers are then one place, the meeting, and a number leads on:

    barrier       number = 1, 2 ...; bra meeting; met1:
    ret           number = 0; bra meeting
    meeting       all wait; has nobody a number above 0? bra turn; is mine 0? bra meeting; else bra met1, met2 ...

Of copies, one that returned is dead: it skips all that is left. A physical thread whose copies are all dead is one that
returned. Source of the copies: Stawinoga and Field, Predictable thread coarsening (TACO 2018).
"""

import re
from collections.abc import Callable, Iterator

from edgetune.stages.elastic.ptx.control_flow import (
    UNIFORM,
    BasicBlock,
    Divergence,
    reachable,
    results,
    waits_for_block,
)
from edgetune.stages.elastic.ptx.legality import CARRIED
from edgetune.stages.elastic.ptx.parse import Entry, Instruction, Module

MOST_LINES = 30_000
"""Of a body; a form that is longer is not made."""
_WORD = re.compile(r"[%\w$]+(?:@\d+)?(?:\.[xyz]\b)?")
_COPIES_TOGETHER = (("cp", "async", "commit_group"), ("cp", "async", "wait_group"), ("cp", "async", "wait_all"))
_JUMPS = ("bra", "ret", "exit")
_GRID = {
    **{f"%ctaid.{axis}": f"%edgetune_{axis}" for axis in "xyz"},
    "%nctaid.x": "%edgetune_width", "%nctaid.y": "%edgetune_height", "%nctaid.z": "%edgetune_depth",
}  # fmt: skip


class NoFormError(Exception):
    """A form cannot be written; ``args``: the rule of ``legality`` that says why, and what its reason names."""


class Body:
    """The statements of a kernel for some logical threads in a physical one.

    Args:
        module: The text.
        entry: The kernel.
        flow: Its control flow.
        copies: Logical threads in a physical one.
        leaving: Whether some threads return while others go on to barriers.

    Attributes:
        text: The statements, from the first of a logical block to those before its turn ends.
        declarations: Of registers and variables.

    Raises:
        NoFormError: a part in which threads go their own ways has several ends, or there are too many statements.
    """

    def __init__(self, module: Module, entry: Entry, flow: Divergence, copies: int, *, leaving: bool) -> None:
        self._module, self._entry, self._flow, self._copies, self._leaving = module, entry, flow, copies, leaving
        self._code, self._end = entry.instructions, len(flow.blocks)
        self._apart = flow.graph.subgraph(number for number, level in enumerate(flow.places) if level > UNIFORM)
        self._local = {each.name for each in entry.variables if each.space == "local"}
        self._calls = {
            first: (start, end, behind) for start, end, first, behind in entry.scopes
            if any(each.op[0] == "call" for each in self._code[first:behind])
        }  # fmt: skip
        self._votes = any(waits_for_block(each) and "red" in each.op for each in self._code)
        self._mortal = leaving and copies > 1
        self._lines: list[str] = []
        self._numbers = iter(range(1, MOST_LINES))
        self._later: list[tuple[str, int]] = []
        self._meetings = 0
        if copies == 1:
            self._write_as_it_is()
        else:
            self._write_in_step()
        if leaving:
            self._write_meeting()
        alive = [f"\tmov.pred %edgetune_live{copy}, 1;" for copy in range(copies if self._mortal else 0)]
        self.text = "\n".join([*alive, *self._lines])
        self.declarations = self._declared()

    def _say(self, *lines: str) -> None:
        self._lines += lines
        if len(self._lines) > MOST_LINES:
            raise NoFormError("too-large", f"a form of more than {MOST_LINES}")

    def _varies(self, name: str) -> bool:
        return self._copies > 1 and name in self._entry.registers and self._flow.level(name) > UNIFORM

    def _named(self, name: str, copy: int) -> str:
        """Return the name of a register, a special one or a variable in a copy."""
        if name in self._local:
            return name if copy == 0 else f"{name}_edgetune{copy}"
        if name in self._entry.registers:
            plain = (name[1:] if name.startswith("%") else f"own_{name}").replace("@", "_edgetune")
            return f"%edgetune{copy}_{plain}" if self._varies(name) else name if "@" not in name else f"%{plain}"
        if self._copies > 1 and name.startswith(("%tid.", "%ntid.")):
            return f"%edgetune_t{name[-1]}{copy}" if name.startswith("%t") else f"%edgetune_b{name[-1]}"
        return _GRID.get(name, name)

    def _renamed(self, text: str, copy: int) -> str:
        return _WORD.sub(lambda found: self._named(found[0], copy), text)

    def _guard(self, each: Instruction, copy: int) -> str:
        return "" if each.guard is None else f"@{'!' * each.guard[1]}{self._named(each.guard[0], copy)} "

    def _line(self, each: Instruction, copy: int) -> str:
        operands = self._renamed(", ".join(each.operands), copy)
        return f"\t{self._guard(each, copy)}{each.written}{' ' * bool(operands)}{operands};"

    def _label(self, block: int, tag: str = "") -> str:
        if block == self._end:
            return "$edgetune_left" if self._leaving else "$edgetune_turn"
        return f"$edgetune_b{block}{tag}"

    def _units(self, first: int, end: int) -> Iterator[range]:
        """Yield instructions, those together that no copy may come between: a call, and sums with a carry."""
        at = first
        while at < end:
            behind = at + 1
            if at in self._calls:
                behind = self._calls[at][2]
            elif "cc" in self._code[at].op:
                readers = (place for place in range(at, end) if self._code[place].op[0] in CARRIED)
                behind = max(readers, default=at) + 1
            yield range(at, behind)
            at = behind

    def _statements(self, unit: range, copy: int) -> list[str]:
        if unit.start in self._calls:
            made = {name for at in unit for name in results(self._code[at])}.intersection(self._entry.registers)
            if self._copies > 1 and not all("@" in name or self._varies(name) for name in made):
                raise NoFormError("crossing", "a call")
            start, end, _ = self._calls[unit.start]
            return [f"\t{self._renamed(self._module.text[start:end], copy)}"]
        return [self._line(self._code[at], copy) for at in unit]

    def _is_once(self, unit: range) -> bool:
        """Return whether instructions, that all threads come to, do and give the same for all copies."""
        each = self._code[unit.start]
        if len(unit) > 1 or each.op[0] in ("atom", "call"):
            return False
        if each.op[:3] in _COPIES_TOGETHER:
            return True
        made = results(each)
        varies = any(map(self._varies, made)) or (each.guard is not None and self._varies(each.guard[0]))
        return bool(made) and not varies

    def _begin(self, number: int, tag: str = "") -> tuple[range, Instruction | None]:
        """Write the label of a basic block; return its instructions without the jump at the end, and that."""
        block = self._flow.blocks[number]
        self._say(f"{self._label(number, tag)}:", *['\t.pragma "nounroll";'] * (block.first in self._entry.rolled))
        last = self._code[block.end - 1]
        if last.op[0] not in _JUMPS:
            return range(block.first, block.end), None
        return range(block.first, block.end - 1), last

    def _target(self, block: BasicBlock, last: Instruction) -> int:
        return block.next[-1] if last.op[0] == "bra" else self._end

    def _write_as_it_is(self) -> None:
        """Write the body for one logical thread."""
        for number, block in enumerate(self._flow.blocks):
            inside, last = self._begin(number)
            for unit in self._units(inside.start, inside.stop):
                self._write_once(unit)
            if last is not None:
                self._say(f"\t{self._guard(last, 0)}bra {self._label(self._target(block, last))};")

    def _write_once(self, unit: range) -> None:
        if waits_for_block(self._code[unit.start]):
            self._write_barrier(self._code[unit.start])
        else:
            self._say(*self._statements(unit, 0))

    def _write_in_step(self) -> None:
        for number, block in enumerate(self._flow.blocks):
            if self._flow.places[number] > UNIFORM:
                continue
            inside, last = self._begin(number)
            together: list[range] = []
            for unit in self._units(inside.start, inside.stop):
                if not waits_for_block(self._code[unit.start]) and not self._is_once(unit):
                    together.append(unit)
                    continue
                self._write_copies(together)
                self._write_once(unit)
            self._write_copies(together)
            self._write_end(number, block, last)

    def _write_copies(self, units: list[range]) -> None:
        """Write instructions for each copy, side by side; where copies may be dead one copy behind the other."""
        if not self._mortal:
            for unit in units:
                for copy in range(self._copies):
                    self._say(*self._statements(unit, copy))
        elif units:
            number = next(self._numbers)
            for copy in range(self._copies):
                self._say(f"\t@!%edgetune_live{copy} bra $edgetune_skip{number}_{copy};")
                for unit in units:
                    self._say(*self._statements(unit, copy))
                self._say(f"$edgetune_skip{number}_{copy}:")
        units.clear()

    def _write_barrier(self, each: Instruction) -> None:
        votes = "red" in each.op
        way = next((word for word in each.op if word in ("popc", "and", "or")), "")
        if each.guard is not None and (votes or self._leaving):
            raise NoFormError("crossing", f"@{each.guard[0]} {each.name}")
        if votes:
            self._write_votes(each, way)
        if self._leaving:
            self._meetings += 1
            self._say(f"\tmov.u32 %edgetune_next, {self._meetings};", "\tbra $edgetune_meeting;")
            self._say(f"$edgetune_met{self._meetings}:")
        elif votes:
            for copy in range(1, self._copies if way != "popc" else 1):
                self._say(f"\tor.pred %edgetune_vote0, %edgetune_vote0, %edgetune_vote{copy};")
            self._write_count(self._copies if way == "popc" else 1)
        else:
            self._say(self._line(each, 0))
        if votes:
            made = each.operands[0]
            for copy in range(self._copies if self._varies(made) else 1):
                take = "mov.u32" if way == "popc" else f"setp.{'ne' if way == 'or' else 'eq'}.u32"
                self._say(f"\t{take} {self._named(made, copy)}, %edgetune_sum{'' if way == 'popc' else ', 0'};")

    def _write_votes(self, each: Instruction, way: str) -> None:
        """Write what is counted: the votes, or those against where all have to be for it."""
        for copy in range(self._copies):
            operand = each.operands[2]
            against = operand.startswith("!") != (way == "and")
            vote = f"%edgetune_vote{copy}"
            name = self._named(operand.lstrip("! "), copy)
            self._say(f"\t{'not' if against else 'mov'}.pred {vote}, {name};")
            if self._mortal:
                self._say(f"\tand.pred {vote}, {vote}, %edgetune_live{copy};")

    def _write_count(self, copies: int) -> None:
        """Write the barriers that add the votes of some copies."""
        self._say("\tmov.u32 %edgetune_sum, 0;")
        for copy in range(copies):
            self._say(
                f"\tbarrier.red.popc.u32 %edgetune_one, 0, %edgetune_vote{copy};",
                "\tadd.u32 %edgetune_sum, %edgetune_sum, %edgetune_one;",
            )

    def _write_end(self, number: int, block: BasicBlock, last: Instruction | None) -> None:
        """Write how all threads of the block go on from a basic block to which they come together."""
        if last is None:
            if block.next:  # it does not end with trap
                self._go_on(block.next[0])
            return
        target = self._target(block, last)
        if last.guard is None:
            self._go_on(target)
            return
        behind = block.next[0]
        if not self._varies(last.guard[0]):
            self._say(f"\t{self._guard(last, 0)}bra {self._place_of(target)};")
            self._go_on(behind)
            return

        def first(copy: int, tag: str) -> list[str]:
            yes, no = (self._inside(one, tag, self._flow.meets[number]) for one in (target, behind))
            return [f"\t{self._guard(last, copy)}bra {yes};", f"\tbra {no};"]

        self._write_apart(first, {target, behind}, self._flow.meets[number])

    def _place_of(self, block: int) -> str:
        """Return the label of a basic block; one to which threads come apart gets copies for this way to it."""
        if block == self._end or self._flow.places[block] == UNIFORM:
            return self._label(block)
        name = f"$edgetune_way{next(self._numbers)}"
        self._later.append((name, block))
        return name

    def _go_on(self, block: int) -> None:
        if block == self._end or self._flow.places[block] == UNIFORM:
            self._say(f"\tbra {self._label(block)};")
        else:
            self._write_from(block)
        while self._later:
            name, one = self._later.pop()
            self._say(f"{name}:")
            self._write_from(one)

    def _write_from(self, block: int) -> None:
        inside = reachable(self._apart, [block])
        ends = {one for here in inside for one in self._flow.blocks[here].next} - inside
        if len(ends) > 1:
            raise NoFormError("crossing", "a branch")
        end = ends.pop() if ends else None
        self._write_apart(lambda _, tag: [f"\tbra {self._inside(block, tag, end)};"], {block}, end)

    def _inside(self, block: int, tag: str, end: int | None) -> str:
        """Return the label of a basic block in a part where threads go their own ways."""
        if block == self._end and self._mortal:
            return f"$edgetune_dies{tag}"
        if block == end:
            return f"$edgetune_ends{tag}"
        if block == self._end or self._flow.places[block] == UNIFORM:
            raise NoFormError("crossing", "a branch")
        return self._label(block, tag)

    def _write_apart(self, first: Callable[[int, str], list[str]], starts: set[int], end: int | None) -> None:
        """Write a part in which threads go their own ways, up to where they meet, one copy behind the other."""
        inside, number = sorted(reachable(self._apart, starts, end)), next(self._numbers)
        dies = self._mortal and any(self._end in (here, *self._flow.blocks[here].next) for here in inside)
        dies |= self._mortal and self._end in starts
        for copy in range(self._copies):
            tag = f"_{number}_{copy}"
            if self._mortal:
                self._say(f"\t@!%edgetune_live{copy} bra $edgetune_ends{tag};")
            self._say(*first(copy, tag))
            for here in inside:
                self._write_block_apart(here, copy, tag, end)
            self._say(*[f"$edgetune_dies{tag}:", f"\tmov.pred %edgetune_live{copy}, 0;"] * dies)
            self._say(f"$edgetune_ends{tag}:")
        if dies:
            self._say("\tmov.pred %edgetune_any, %edgetune_live0;")
            for copy in range(1, self._copies):
                self._say(f"\tor.pred %edgetune_any, %edgetune_any, %edgetune_live{copy};")
            self._say("\t@!%edgetune_any bra $edgetune_left;")
        if end is not None:
            self._go_on(end)

    def _write_block_apart(self, number: int, copy: int, tag: str, end: int | None) -> None:
        block = self._flow.blocks[number]
        inside, last = self._begin(number, tag)
        for unit in self._units(inside.start, inside.stop):
            each = self._code[unit.start]
            if waits_for_block(each) or each.op[:3] in _COPIES_TOGETHER:
                raise NoFormError("crossing", each.name)
            self._say(*self._statements(unit, copy))
        if last is not None:
            target = self._inside(self._target(block, last), tag, end)
            self._say(f"\t{self._guard(last, copy)}bra {target};")
        if block.next and (last is None or last.guard is not None):
            self._say(f"\tbra {self._inside(block.next[0], tag, end)};")

    def _write_meeting(self) -> None:
        votes = [f"\tmov.pred %edgetune_vote{copy}, 0;" for copy in range(self._copies if self._votes else 0)]
        self._say(
            "$edgetune_left:", "\tmov.u32 %edgetune_next, 0;", *votes, "$edgetune_meeting:",
            "\tsetp.ne.u32 %edgetune_is, %edgetune_next, 0;", "\tbarrier.red.or.pred %edgetune_any, 0, %edgetune_is;",
            "\t@!%edgetune_any bra $edgetune_turn;",
        )  # fmt: skip
        if self._votes:
            self._write_count(self._copies)
        self._say("\t@!%edgetune_is bra $edgetune_meeting;")
        for number in range(1, self._meetings):
            self._say(
                f"\tsetp.eq.u32 %edgetune_is, %edgetune_next, {number};", f"\t@%edgetune_is bra $edgetune_met{number};"
            )
        self._say(f"\tbra $edgetune_met{self._meetings};")

    def _declared(self) -> str:
        found = []
        for name, kind in self._entry.registers.items():
            copies = self._copies if self._varies(name) else 1
            found += [f".reg .{kind} {self._named(name, copy)};" for copy in range(copies)]
        for each in self._entry.variables:
            kind = f".{each.space} .align {each.align_bytes} .b8"
            if each.space == "local":
                found += [f"{kind} {self._named(each.name, copy)}[{each.size_bytes}];" for copy in range(self._copies)]
            elif each.space == "shared":
                size = each.size_bytes
                found.append(f"{kind} {each.name}[{size}];" if size else f".extern {kind} {each.name}[];")
        predicates = ["any", *(f"vote{copy}" for copy in range(self._copies))]
        predicates += [f"live{copy}" for copy in range(self._copies)]
        found.append(f".reg .pred {', '.join(f'%edgetune_{each}' for each in predicates)};")
        found.append(".reg .b32 %edgetune_next, %edgetune_sum, %edgetune_one;")
        return "\n\t".join(found)
