"""Compiles a policy to a table of decisions, which C++ reads without Python; see ``decide.hpp``.

elastic   call -> the piece alone; for each number of critical blocks modulo multiprocessors: limits of threads, and
          the best piece up to each; and what its duration is estimated from
others    a rule without a table
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from edgetune.errors import InputError
from edgetune.stages.elastic.backend import Launch
from edgetune.stages.elastic.gpu import Gpu
from edgetune.stages.elastic.native.build import native_library
from edgetune.stages.elastic.native.structs import (
    DOUBLE,
    MOST_PIECES,
    U32,
    CallRow,
    DecisionRow,
    Limit,
    Piece,
    Shape,
    State,
    Table,
    TaskRow,
)
from edgetune.stages.elastic.pieces import SATURATING_THREADS, WAIT_S, PieceShape, wave, work_s
from edgetune.stages.elastic.policies.elastic import DEPTH, MOST, Elastic
from edgetune.stages.elastic.policies.multistream import MultiStream, Solo
from edgetune.stages.elastic.policies.sequential import Sequential
from edgetune.stages.elastic.view import Decision, ElasticPolicy, LaunchChain, LaunchPiece, TaskState, View
from edgetune.stages.elastic.work import Call, GpuTask

_RULES: dict[type[Any], int] = {Elastic: 0, MultiStream: 1, Solo: 1, Sequential: 2}
"""As ``Rule`` of ``decide.hpp``; ``solo`` is for one task, of which it launches what comes."""
_CHAIN, _PIECE = 1, 2


@dataclass(frozen=True, slots=True)
class DecisionTable:
    """A policy's decisions for tasks on a GPU.

    Args:
        tasks: In the order of the table.
        table: As C++ reads it; it keeps its arrays alive.
    """

    tasks: tuple[GpuTask, ...]
    table: Any

    @property
    def address(self) -> int:
        """Of the table."""
        return ctypes.addressof(self.table)


def compile_policy(policy: ElasticPolicy, tasks: Sequence[GpuTask], gpu: Gpu) -> DecisionTable:
    """Return the table of a policy.

    Args:
        policy: The policy.
        tasks: All tasks of a run.
        gpu: As the policy would see it.

    Raises:
        InputError: the policy has no table.
    """
    rule = check_table(policy.name, type(policy))
    calls, heads, limits, rows = list[Any](), list[Any](), list[Any](), list[int]()
    for task in tasks:
        heads.append(TaskRow(task.priority, len(calls), len(task.network.calls)))
        for call in task.network.calls:
            alone, row = Shape(), len(rows)
            if isinstance(policy, Elastic) and not task.critical:
                alone = _shape(policy.alone(gpu, call))
                for found in _rows(policy, gpu, call):
                    rows.append(len(limits))
                    limits += found
                rows.append(len(limits))
            calls.append(_call(gpu, call, row, alone))
    table = Table(
        rule, len(tasks), gpu.sm_count, DEPTH, MOST, SATURATING_THREADS, gpu.launch_s,
        (TaskRow * len(heads))(*heads), (CallRow * len(calls))(*calls), (U32 * max(len(rows), 1))(*rows),
        (Limit * max(len(limits), 1))(*limits),
    )  # fmt: skip
    return DecisionTable(tuple(tasks), table)


def check_table(name: str, policy: type[ElasticPolicy]) -> int:
    """Return the rule of a policy.

    Args:
        name: Of the policy, for messages.
        policy: Its class.

    Raises:
        InputError: the policy has no table.
    """
    if policy not in _RULES:
        known = ", ".join(each.name for each in _RULES if each is not Solo)
        message = f"policy {name} has no table of decisions, which the native launcher needs"
        raise InputError(message, f"these have: {known}; or use --launcher python")
    return _RULES[policy]


def _rows(policy: Elastic, gpu: Gpu, call: Call) -> Iterator[list[Any]]:
    """Yield, for every number of critical blocks modulo multiprocessors, the limits and shapes of a call."""
    beside = policy.beside(gpu, call)
    for limits, shapes in zip(beside.limits, beside.shapes, strict=True):
        yield [Limit(threads, _shape(shape)) for threads, shape in zip(limits, shapes, strict=True)]


def _shape(shape: PieceShape) -> Any:
    return Shape(shape.count, shape.per_thread, shape.blocks)


def _call(gpu: Gpu, call: Call, row: int, alone: Any) -> Any:
    block_s = math.nan if call.block_s is None else call.block_s
    measured = block_s, call.whole_s or 0.0, work_s(gpu, call), call.waits_per_block * WAIT_S
    return CallRow(call.logical.blocks, call.logical.threads, wave(gpu, call), row, alone, *measured)


class CompiledPolicy:
    """A policy that asks the C++ evaluator, for comparison with the policy that it was compiled from.

    Args:
        made: The table.
        library: In place of the library of this package.
    """

    name = "compiled"

    def __init__(self, made: DecisionTable, library: ctypes.CDLL | None = None) -> None:
        self._made, self._library = made, library or native_library()
        self._library.edgetune_about_s.restype = DOUBLE
        self._states = (State * len(made.tasks))()
        self._first_calls = [made.table.task[place].first_call for place in range(len(made.tasks))]

    def decide(self, view: View) -> Sequence[Decision]:
        """Return the next decision."""
        for place, state in enumerate(view.tasks):
            self._set(place, state, [launch for launch in view.resident if launch.task == state.task.name])
        found = DecisionRow()
        self._library.edgetune_decide(ctypes.byref(self._made.table), self._states, ctypes.byref(found))
        name = self._made.tasks[found.task].name
        if found.kind == _CHAIN:
            return (LaunchChain(name),)
        if found.kind != _PIECE:
            return ()
        shape = found.shape
        return (LaunchPiece(name, shape.count, shape.per_thread, shape.blocks or None),)

    def _set(self, place: int, state: TaskState, resident: Sequence[Launch]) -> None:
        to, running = self._states[place], [*resident, *state.in_flight][:1]
        to.oldest_ns = state.arrived_ns[0] if state.arrived_ns else 0
        to.waiting, to.begun = len(state.arrived_ns), state.request is not None
        to.call, to.left, to.in_flight, to.served_s = state.call, state.left, len(state.in_flight), state.served_s
        to.running_blocks = running[0].physical_blocks if running else 0
        to.running_threads = running[0].physical_threads if running else 0
        pieces = [] if state.task.critical else [*state.in_flight][:MOST_PIECES]
        to.pieces = len(pieces)
        for at, launch in enumerate(pieces):
            to.piece[at] = Piece(launch.number, self._about_s(self._first_calls[place] + launch.call, launch))

    def _about_s(self, call: int, launch: Launch) -> float:
        piece = Shape(launch.count, launch.per_thread, launch.physical_blocks)
        return float(self._library.edgetune_about_s(ctypes.byref(self._made.table), call, ctypes.byref(piece)))
