"""The ledger of a call of a normal kernel: which logical blocks were dispatched, in what shape, and which are over.

    Tree(12)                 [0 .. 12) virtual
    take(4, shade=1)         [0 .. 12) actual
                             |- [0 .. 4) actual, shade 1             -> launched
                             |- [4 .. 12) virtual                    -> left == 8
    take(6, shade=2)         |- [4 .. 12) actual
                                |- [4 .. 10) actual, shade 2         -> launched
                                |- [10 .. 12) virtual                -> left == 2
    done(first of them)      [0 .. 4) done                              its parent is when both its children are

This is the dynamic shaded binary tree of Miriam (Zhao et al., SenSys 2023): the root is the whole grid, a node is a
contiguous range of logical blocks and its shade the size of the block that runs them. Nothing is decided before it has
to be: a range is only cut when a part of it is taken, so that each part may have the shape that fits at its time.

Every logical block is dispatched exactly once: what is taken is no longer virtual, and only what is virtual is taken. A
part whose launch failed counts as dispatched, for nobody knows how much of it was done, and doing it twice may be wrong
(a kernel that adds to its output).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

State = Literal["virtual", "actual", "done"]


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of a call that is dispatched.

    Args:
        first: Logical block to begin with.
        count: How many from there on.
        shade: Logical threads in a physical one.
    """

    first: int
    count: int
    shade: int


@dataclass(slots=True, eq=False)
class BlockRange:
    """A contiguous range of logical blocks.

    Args:
        first: Where it begins.
        count: How many there are.
        state: ``virtual``: nothing of it was dispatched; ``actual``: all or a part of it was; ``done``: all is over.
        shade: Logical threads in a physical one, where it was dispatched as it is; ``None`` where it was not.
        parent: Which it is a part of; ``None`` of the root.
        children: Its two parts where it was cut, lower blocks first.
    """

    first: int
    count: int
    state: State = "virtual"
    shade: int | None = None
    parent: BlockRange | None = field(default=None, repr=False)
    children: tuple[BlockRange, BlockRange] | None = None


class Tree:
    """All logical blocks of one call.

    Args:
        blocks: How many there are, at least one.

    Raises:
        ValueError: there is none.
    """

    def __init__(self, blocks: int) -> None:
        if blocks < 1:
            raise ValueError(f"a call has at least one logical block, not {blocks}")
        self.root = BlockRange(0, blocks)
        self._virtual: BlockRange | None = self.root
        """What nobody took yet: blocks are taken from the front, so that it is always one range."""
        self._running: dict[int, BlockRange] = {}
        """By first block: dispatched and not over."""

    @property
    def left(self) -> int:
        """Logical blocks that were not taken yet."""
        return 0 if self._virtual is None else self._virtual.count

    @property
    def finished(self) -> bool:
        """Whether all logical blocks are over."""
        return self.root.state == "done"

    def take(self, count: int, shade: int = 1) -> Shard:
        """Return the next logical blocks, which count as dispatched from now on.

        Args:
            count: How many, from one to all that are left.
            shade: Logical threads in a physical one.

        Raises:
            ValueError: there are not as many left, or nothing was asked for.
        """
        node = self._virtual
        if node is None or not 1 <= count <= node.count:
            raise ValueError(f"{count} logical blocks were to be taken where {self.left} are left")
        node.state = "actual"
        if count < node.count:
            node, self._virtual = _cut(node, count)
            node.state = "actual"
        else:
            self._virtual = None
        node.shade = shade
        self._running[node.first] = node
        return Shard(node.first, count, shade)

    def done(self, shard: Shard) -> None:
        """Take note that a shard is over, whether it failed or not.

        Raises:
            ValueError: it was not taken from here, or is over already.
        """
        node = self._running.get(shard.first)
        if node is None or (node.count, node.shade) != (shard.count, shard.shade):
            raise ValueError(f"{shard} is not running")
        del self._running[shard.first]
        node.state = "done"
        above = node.parent
        while above is not None and above.children is not None and all(c.state == "done" for c in above.children):
            above.state = "done"
            above = above.parent

    def leaves(self) -> Iterator[BlockRange]:
        """Yield the ranges that are not cut, lower blocks first: together they are all logical blocks, each once."""
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            if node.children is None:
                yield node
            else:
                waiting.extend(reversed(node.children))


def _cut(node: BlockRange, count: int) -> tuple[BlockRange, BlockRange]:
    """Cut a node behind ``count`` blocks and return its two parts, both virtual."""
    head = BlockRange(node.first, count, parent=node)
    rest = BlockRange(node.first + count, node.count - count, parent=node)
    node.children = (head, rest)
    return node.children
