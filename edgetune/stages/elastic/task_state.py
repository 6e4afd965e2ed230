"""The requests of one task, and which blocks of their kernels were launched.

    arrived -> waiting ... | begun: tree of call 0, of call 1, ... | all launched | answered, once all launches ended

Every call of a request has a tree of its logical blocks: none is launched twice, and a request is answered only when
all of them have ended.

    Tree(12)                 [0 .. 12) virtual
    take(4, shade=1)         [0 .. 12) actual
                             |- [0 .. 4) actual, shade 1             -> launched
                             |- [4 .. 12) virtual                    -> left == 8
    take(6, shade=2)         |- [4 .. 12) actual
                                |- [4 .. 10) actual, shade 2         -> launched
                                |- [10 .. 12) virtual                -> left == 2
    done(first of them)      [0 .. 4) done                              its parent is when both its children are

This is the dynamic shaded binary tree of Miriam (Zhao et al., SenSys 2023): the root is the whole grid, a node is a
contiguous range of logical blocks and its shade the number of logical threads in a physical one. A range is cut only
when a part of it is taken, so that each part may have the shape that fits at its time. A part whose launch failed
counts as launched, for its blocks may have run, and running them twice may be wrong (a kernel that adds to its output).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from edgetune.serving.sources import ArrivalSource
from edgetune.stages.elastic.backend import Launch
from edgetune.stages.elastic.view import TaskState
from edgetune.stages.elastic.work import GpuTask

State = Literal["virtual", "actual", "done"]


@dataclass(frozen=True, slots=True)
class Shard:
    """A launched part of a call.

    Args:
        first: First logical block.
        count: Logical blocks from there on.
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
        count: Its length.
        state: ``virtual``: nothing of it is launched; ``actual``: all or a part of it is; ``done``: all has ended.
        shade: Logical threads in a physical one, where it was launched as it is; ``None`` where it was not.
        parent: The range that it is a part of; ``None`` of the root.
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
        """The blocks that are not taken yet: blocks are taken from the front, so that it is one range."""
        self._running: dict[int, BlockRange] = {}
        """By first block: launched and not ended."""

    @property
    def left(self) -> int:
        """Logical blocks that are not taken yet."""
        return 0 if self._virtual is None else self._virtual.count

    @property
    def finished(self) -> bool:
        """Whether all logical blocks have ended."""
        return self.root.state == "done"

    def take(self, count: int, shade: int = 1) -> Shard:
        """Take the next logical blocks, which count as launched from now on.

        Args:
            count: From one to all that are left.
            shade: Logical threads in a physical one.

        Raises:
            ValueError: fewer are left, or none was asked for.
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
        """Mark a shard as ended, whether it failed or not.

        Raises:
            ValueError: it was not taken from here, or has ended already.
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


@dataclass(slots=True, eq=False)
class Open:
    """A request with launches.

    Args:
        number: Its number among those of the task, from 0.
        arrived_ns: Its arrival.
        begun_ns: Its first launch.
        trees: Of its calls, as far as they were begun.
        shards: Parts that were taken and have not ended, by number of the launch.
        launched: Whether all of its calls were launched to the end.
        failure: Why it will have no answer; ``None`` so far.
        failed_ns: When that became known.
    """

    number: int
    arrived_ns: int
    begun_ns: int
    trees: list[Tree] = field(default_factory=list)
    shards: dict[int, tuple[Tree, Shard]] = field(default_factory=dict)
    launched: bool = False
    failure: str | None = None
    failed_ns: int = 0

    @property
    def over(self) -> bool:
        """Whether nothing of it runs, and nothing more of it will."""
        return not self.shards and (self.launched or self.failure is not None)


class TaskProgress:
    """The progress of a task: the part that policies see (``state``), and the part that only the loop needs.

    Args:
        task: The task.
        source: Of its requests.

    Raises:
        ValueError: its network has no kernels.
    """

    def __init__(self, task: GpuTask, source: ArrivalSource) -> None:
        if not task.network.calls:
            raise ValueError(f"network {task.network.name} has no kernels")
        self.task, self.source = task, source
        self.arrived_ns: deque[int] = deque()
        self.in_flight: deque[Launch] = deque()
        self.state = TaskState(task, self.arrived_ns, left=task.network.calls[0].logical.blocks)
        self.state.in_flight = self.in_flight
        self.open: dict[int, Open] = {}
        """Requests that have begun and are not answered, by number."""
        self.idle_since_ns = 0
        """When the task last became idle."""
        self._begun = 0
        self._current: Open | None = None

    @property
    def idle(self) -> bool:
        """Whether no request waits and none is open."""
        return not (self.arrived_ns or self.open)

    @property
    def next_number(self) -> int:
        """Number of the oldest waiting request: requests begin in the order of their arrival."""
        return self._begun

    def begin(self, now_ns: int) -> Open:
        """Begin the oldest waiting request."""
        request = Open(self._begun, self.arrived_ns.popleft(), now_ns)
        self.open[request.number] = request
        self._begun += 1
        self._current, self.state.request = request, request.number
        return request

    def drop(self) -> tuple[int, int]:
        """Give up the oldest waiting request; return its number and arrival."""
        self._begun += 1
        return self._begun - 1, self.arrived_ns.popleft()

    def current(self, now_ns: int) -> Open:
        """Return the request that is being launched; where none is, begin the oldest waiting one."""
        return self._current or self.begin(now_ns)

    def take(self, request: Open, launch: int, count: int, per_thread: int) -> Shard:
        """Return the next logical blocks of the call that is being launched, which count as launched from now on.

        Raises:
            ValueError: fewer are left.
        """
        calls, state = self.task.network.calls, self.state
        if state.call == len(request.trees):
            request.trees.append(Tree(calls[state.call].logical.blocks))
        tree = request.trees[-1]
        shard = tree.take(count, per_thread)
        request.shards[launch] = (tree, shard)
        if tree.left:
            state.left = tree.left
        elif state.call + 1 < len(calls):
            state.call += 1
            state.left = calls[state.call].logical.blocks
        else:
            request.launched = True
            self._leave()
        return shard

    def end(self, launch: Launch, failure: str | None, now_ns: int) -> Open:
        """Mark a launch as ended and return its request; of a request with a failure, no more is launched.

        Raises:
            RuntimeError: the request is answered, and not all of its logical blocks were launched and ended once.
        """
        request = self.open[launch.request]
        tree, shard = request.shards.pop(launch.number)
        tree.done(shard)
        self._remove(launch)
        if failure is not None and request.failure is None:
            request.failure, request.failed_ns = failure, now_ns
            if request is self._current:
                self._leave()
        if request.over and request.failure is None:
            whole = len(request.trees) == len(self.task.network.calls)
            if not whole or not all(tree.finished for tree in request.trees):
                raise RuntimeError(f"request {request.number} of {self.task.name} ended with blocks never launched")
        return request

    def _remove(self, launch: Launch) -> None:
        if self.in_flight[0].number == launch.number:  # nearly always: a stream is in order
            self.in_flight.popleft()
            return
        place = next(at for at, each in enumerate(self.in_flight) if each.number == launch.number)
        del self.in_flight[place]

    def _leave(self) -> None:
        """Stop launching the current request."""
        state, calls = self.state, self.task.network.calls
        self._current, state.request = None, None
        state.call, state.left = 0, calls[0].logical.blocks
