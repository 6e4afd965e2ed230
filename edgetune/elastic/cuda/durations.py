"""What the kernels of a network take on this GPU: each timed alone, in its place in a request.

    [delay][start event][kernel][end event][delay][start event][next kernel][end event]...     whole_s of each
    [delay][start event][one block for each multiprocessor][end event][all other blocks]...    block_s of each

Every block runs once in every request, so that kernels find what they would in a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from edgetune.elastic.backend import Launch
from edgetune.elastic.cuda.context import Context
from edgetune.elastic.cuda.program import Program
from edgetune.elastic.cuda.timers import Delay
from edgetune.elastic.work import Call
from edgetune.stats import median

DELAY_NS = 60_000
"""Queueing two events and two launches takes some 20 us on the host of an H100; boards take longer."""
_REPEATS = 5
_MS = 1e-3


def timed_calls(context: Context, program: Program, image: bytes) -> tuple[Call, ...]:
    """Return a network's calls with what they take; takes some milliseconds, while nothing else is to run.

    Args:
        context: Where.
        program: With contents, warmed up.
        image: ``timers.TIMER_SOURCE``, compiled.

    Raises:
        KernelFailedError: a kernel failed.
    """
    calls = program.network.calls
    with context.scope():
        bench = _Bench(context, program, image)
        whole_s = bench.medians_s([[_whole(place, call)] for place, call in enumerate(calls)])
        block_s = bench.medians_s([_parted(program, place, call) for place, call in enumerate(calls)])
    return tuple(
        replace(call, whole_s=whole or None, block_s=(block if 1 in program.per_thread(place) else whole) or None)
        for place, (call, whole, block) in enumerate(zip(calls, whole_s, block_s, strict=True))
    )


def _whole(place: int, call: Call) -> Launch:
    return Launch(0, "", 0, place, call, 0, call.logical.blocks)


def _parted(program: Program, place: int, call: Call) -> list[Launch]:
    """Return a call as a block for each multiprocessor and the rest; the original, where it has no elastic form."""
    if 1 not in program.per_thread(place):
        return [_whole(place, call)]
    blocks = call.logical.blocks
    first = min(blocks, program.sm_count)
    parts = [(0, first)] if first == blocks else [(0, first), (first, blocks - first)]
    return [Launch(0, "", 0, place, call, begin, count, 1, count) for begin, count in parts]


class _Bench:
    """Times the first launch of each call."""

    def __init__(self, context: Context, program: Program, image: bytes) -> None:
        self._context, self._program = context, program
        self._delay, self._stream = Delay(context, image, DELAY_NS), context.stream()
        self._events = [(context.event(), context.event()) for _ in program.network.calls]

    def medians_s(self, requests: Sequence[Sequence[Launch]]) -> list[float]:
        """Return the median of what the first launch of each call takes, s; the first request warms up."""
        taken_s = [list(self._request_s(requests)) for _ in range(_REPEATS + 1)][1:]
        return [median(each) for each in zip(*taken_s, strict=True)]

    def _request_s(self, requests: Sequence[Sequence[Launch]]) -> Iterator[float]:
        for launches, (start, end) in zip(requests, self._events, strict=True):
            self._delay.launch(self._stream)
            self._record(start)
            self._program.launch(launches[0], self._stream)
            self._record(end)
            for launch in launches[1:]:
                self._program.launch(launch, self._stream)
        self._context.synchronise(self._stream)
        for start, end in self._events:
            yield float(self._context.driver.call("cuEventElapsedTime", start, end)) * _MS

    def _record(self, event: Any) -> None:
        self._context.driver.call("cuEventRecord", event, self._stream)
