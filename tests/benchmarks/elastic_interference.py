"""How much kernels of unlike needs cost each other on one GPU, and whether a cap for normal work would gain by it.

    halves    [critical: half][normal: other half]       green contexts: caches and bandwidth are shared, nothing else
    capped    [critical: all ][normal: half of it]       a cap: multiprocessors beyond it are never the normal one's
    shared    [critical: all ][normal: all       ]       no partition: the stream of the critical one goes first

Two kernels run in loops, each on a stream of its own; one is timed while the other lasts longer:

    critical  [delay][start][k][k][k][end]
    normal    [wait for the delay][n][n][n][n][n][n][n][n]

A network is a mixture of kinds of kernels, by the share of its time that each takes alone. It is slowed down beside
another by the mean over pairs of kinds, weighted by both shares: what one does when the other does what is left to
chance. Throughput is the sum of both speeds relative to alone (system throughput: Eyerman and Eeckhout 2008, IEEE Micro
28(3)), while critical requests run, and the speed of the normal network alone under the cap, while none does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import product
from statistics import median
from typing import Any

from edgetune.serving.arrivals import parse_arrivals
from edgetune.stages.elastic.backend import Launch
from edgetune.stages.elastic.cuda.blocks import Delay
from edgetune.stages.elastic.cuda.context import Context
from edgetune.stages.elastic.cuda.gpu_session import GpuSession, contents
from edgetune.stages.elastic.cuda.green import green_halves
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.mdtb.networks import network
from edgetune.stages.elastic.mdtb.workloads import TaskPair
from edgetune.stages.elastic.work import Call, GpuTask, KernelSequence, Pointer

KINDS: Mapping[str, tuple[str, str]] = {
    "convolution": ("squeezenet", "arithmetic"),
    "fully_connected": ("alexnet", "DRAM"),
    "gru_cell": ("gru", "L2: weights"),
    "add_relu": ("resnet", "L2: activations"),
}
"""By kernel: the network of which its largest call is taken, such that a GPU of 132 multiprocessors is full, and what
it is bound by where the L2 has 50 MB."""
SIMILAR = {"lstm_cell": "gru_cell"}
"""Kernels that count as one of ``KINDS``; every other one, such as pooling, moves activations as ``add_relu`` does."""
REPEATS = 3
TIMED_S = 1e-3
"""So long the timed loop takes alone, s, but for limits of how many launches may wait in a stream."""
MOST = 200
"""Launches of the timed loop; the other one has up to three times as many, as about a thousand fit in a stream."""
LAUNCH_NS = 15_000
"""More than queueing a launch takes on a slow host."""
LEAST_GAIN = 0.02
"""Of critical latency, and the loss of throughput that is no loss: repeated measurements differ by as much."""
PLACES = ("halves", "capped", "shared")


@dataclass(frozen=True, slots=True)
class Loop:
    """A kernel that can be launched again and again on multiprocessors of its own.

    Args:
        context: They, with streams and memory.
        program: One call.
        stream: Its stream.
    """

    context: Context
    program: Program
    stream: Any

    def put(self, count: int, before: Callable[[], None]) -> tuple[Any, Any]:
        """Put launches on the stream; return the events around them.

        Args:
            count: Launches.
            before: Puts there what comes first.
        """
        (call,) = self.program.network.calls
        launch = Launch(0, "", 0, 0, call, 0, call.logical.blocks)
        with self.context.current():
            start, end = self.context.event(), self.context.event()
            before()
            self.context.driver.call("cuEventRecord", start, self.stream)
            for _ in range(count):
                self.program.launch(launch, self.stream)
            self.context.driver.call("cuEventRecord", end, self.stream)
        return start, end

    def took_s(self, events: tuple[Any, Any], count: int) -> float:
        """Wait for events; return the time of one launch, s."""
        with self.context.current():
            self.context.await_event(events[1])
            return float(self.context.driver.call("cuEventElapsedTime", *events)) / 1e3 / count


def largest(name: str, kernel: str, sizes: Mapping[str, int]) -> KernelSequence:
    """Return a network of one call of a kernel, that with most blocks, then work, and of the buffers that it needs."""

    def work(call: Call) -> tuple[int, float]:
        return call.logical.blocks, call.flop_per_block + call.bytes_per_block

    made = network(name, **sizes)
    call = max((each for each in made.calls if each.kernel == kernel), key=work)
    used = {each.buffer for each in call.arguments if isinstance(each, Pointer)}
    return replace(made, calls=(call,), buffers=[each for each in made.buffers if each.name in used])


class Interference:
    """Kernels of each kind, ready on all of a GPU twice and on each half of it.

    Args:
        ready: All of the GPU.
        halves: Two equal parts of it.
        sizes: Of networks, in place of the usual ones.
        most: Launches of a timed loop.
    """

    def __init__(
        self, ready: GpuSession, halves: tuple[Context, Context], sizes: Mapping[str, Mapping[str, int]], most: int
    ) -> None:
        self.most, whole = most, ready.context
        self._image = ready.timer_image
        self._delays: dict[tuple[int, int], Delay] = {}
        self.loops: dict[tuple[str, str], Loop] = {}
        lowest, highest = whole.priorities()
        for kind, (name, _) in KINDS.items():
            alone = largest(name, kind, sizes.get(name, {}))
            given, built = contents(alone, 0), ready.build(alone)
            for where, context, priority in (
                ("critical", whole, highest), ("normal", whole, lowest),
                ("critical half", halves[0], highest), ("normal half", halves[1], lowest),
            ):  # fmt: skip
                with context.current():
                    program, stream = Program(context, alone, built), context.stream(priority)
                    program.write(given)
                    program.warm_up(stream)
                self.loops[where, kind] = Loop(context, program, stream)
        self.alone_s = {key: self._alone_s(loop) for key, loop in self.loops.items()}

    def beside_s(self, timed: tuple[str, str], other: tuple[str, str]) -> tuple[float, float]:
        """Return the time of a launch beside another kernel, s, and how many times as long the other one lasted."""
        count = self._count(self.alone_s[timed])
        others = math.ceil(2 * count * self.alone_s[timed] / self.alone_s[other])
        others = max(1, min(others, 3 * self.most))
        return self._timed(timed, count, other, others)

    def _count(self, alone_s: float) -> int:
        return min(max(5, math.ceil(TIMED_S / alone_s)), self.most)

    def _alone_s(self, loop: Loop) -> float:
        first_s = self._run(loop, 5)[0]
        return median(self._run(loop, self._count(first_s))[0] for _ in range(REPEATS))

    def _timed(self, timed: tuple[str, str], count: int, other: tuple[str, str], others: int) -> tuple[float, float]:
        found = [self._run(self.loops[timed], count, self.loops[other], others) for _ in range(REPEATS)]
        return median(took_s for took_s, _ in found), min(longer for _, longer in found)

    def _delay(self, context: Context, count: int) -> Delay:
        """Return a delay of at least so many launches: a power of two of them, so that there are few."""
        key = id(context), 1 << count.bit_length()
        if key not in self._delays:
            with context.current():
                self._delays[key] = Delay(context, self._image, LAUNCH_NS * key[1])
        return self._delays[key]

    def _run(self, loop: Loop, count: int, other: Loop | None = None, others: int = 0) -> tuple[float, float]:
        context, driver = loop.context, loop.context.driver
        with ExitStack() as stack:
            delay = self._delay(context, count + others)
            for each in {id(one.context): one.context for one in (loop, other) if one is not None}.values():
                stack.enter_context(each.current())
                stack.enter_context(each.scope())
            with context.current():
                go = context.event()

            def begin() -> None:
                delay.launch(loop.stream)
                driver.call("cuEventRecord", go, loop.stream)

            events = loop.put(count, begin)
            if other is None:
                return loop.took_s(events, count), math.inf
            beside = other.put(others, lambda: driver.call("cuStreamWaitEvent", other.stream, go, 0))
            late = driver.is_over(go)  # the host has queued while both ran already
            took_s, other_s = loop.took_s(events, count), other.took_s(beside, others)
            return took_s, 0.0 if late else other_s * others / (took_s * count)


def pairs(measured: Interference) -> list[dict[str, Any]]:
    """Return, for each pair of a critical and a normal kind and each place, by how much both are slowed down.

    ``critical_x`` and ``normal_x`` are relative to alone on the same multiprocessors; ``overlap`` is how many times as
    long as the timed loop the other one lasted, at least: below one, the timed kernel was alone for a part, and at zero
    the host was too slow to tell (raise ``LAUNCH_NS``).
    """
    ends = {"halves": (" half", " half"), "capped": ("", " half"), "shared": ("", "")}
    found = []
    for critical, normal, place in product(KINDS, KINDS, PLACES):
        one, other = ((f"critical{ends[place][0]}", critical), (f"normal{ends[place][1]}", normal))
        critical_s, first = measured.beside_s(one, other)
        normal_s, second = measured.beside_s(other, one)
        found.append(
            {
                "critical": critical, "normal": normal, "place": place,
                "critical_x": critical_s / measured.alone_s[one], "normal_x": normal_s / measured.alone_s[other],
                "overlap": min(first, second),
            }
        )  # fmt: skip
    return found


def kinds_of(task: GpuTask) -> dict[str, float]:
    """Return the share of a network's time that kernels of each kind take."""
    shares = dict.fromkeys(KINDS, 0.0)
    for call in task.network.calls:
        kind = SIMILAR.get(call.kernel, call.kernel)
        shares[kind if kind in KINDS else "add_relu"] += call.whole_s or 0.0
    total_s = sum(shares.values())
    return {kind: share / total_s for kind, share in shares.items()} if total_s else shares


@dataclass(frozen=True, slots=True)
class Cap:
    """Whether a cap of half of the multiprocessors would gain for the normal network of a workload.

    Args:
        workload, critical, normal: Names.
        busy: Share of the time for which critical requests run.
        critical_x: Latency of the critical network relative to alone on all: shared, and capped.
        throughput: As above: shared, and capped.
        gains: Whether critical latency falls, and throughput does not.
    """

    workload: str
    critical: str
    normal: str
    busy: float
    critical_x: tuple[float, float]
    throughput: tuple[float, float]
    gains: bool


def cap(asked: TaskPair, found: Sequence[Mapping[str, Any]], alone_s: Mapping[tuple[str, str], float]) -> Cap:
    """Choose for a workload.

    Args:
        asked: With measured times of kernels.
        found: Of ``pairs``.
        alone_s: Times of kinds alone, by place and kind.
    """
    critical, normal = kinds_of(asked.critical), kinds_of(asked.normal)
    total_s = math.fsum(call.whole_s or 0.0 for call in asked.critical.network.calls)
    rate_per_s = parse_arrivals(asked.critical.arrivals).rate_per_s
    busy = 1.0 if rate_per_s is None else min(1.0, rate_per_s * total_s)
    halved = {kind: alone_s["normal half", kind] / alone_s["normal", kind] for kind in KINDS}
    alone_x = math.fsum(share * halved[kind] for kind, share in normal.items())

    def slower(place: str, which: str) -> float:
        return math.fsum(
            critical[each["critical"]] * normal[each["normal"]] * each[which]
            * (halved[each["normal"]] if which == "normal_x" and place == "capped" else 1.0)
            for each in found if each["place"] == place
        )  # fmt: skip

    def throughput(place: str) -> float:
        together = 1 / slower(place, "critical_x") + 1 / slower(place, "normal_x")
        return busy * together + (1 - busy) / (alone_x if place == "capped" else 1.0)

    latency, through = ((of("shared"), of("capped")) for of in (lambda p: slower(p, "critical_x"), throughput))
    gains = latency[1] < (1 - LEAST_GAIN) * latency[0] and through[1] >= (1 - LEAST_GAIN) * through[0]
    return Cap(asked.name, asked.critical.name, asked.normal.name, busy, latency, through, gains)


def interference(
    ready: GpuSession,
    workloads: Sequence[TaskPair],
    sizes: Mapping[str, Mapping[str, int]],
    say: Callable[[str], None],
    most: int = MOST,
) -> dict[str, Any]:
    """Measure pairs on a GPU, print them, and choose caps.

    Args:
        ready: All of the GPU.
        workloads: With measured times of kernels.
        sizes: Of networks, in place of the usual ones.
        say: Prints a line.
        most: Launches of a timed loop.

    Raises:
        DeviceError: the GPU has no green contexts.
    """
    with ready.context.scope(), green_halves(ready.context) as halves:
        measured = Interference(ready, halves, sizes, most)
        found, half = pairs(measured), halves[0].facts.gpu.sm_count
        alone_s = measured.alone_s
    say(f"alone      us on {ready.gpu.sm_count}, and on {half} multiprocessors:")
    for kind, (_, needs) in KINDS.items():
        whole_us, half_us = 1e6 * alone_s["normal", kind], 1e6 * alone_s["normal half", kind]
        say(f"           {kind:16} {whole_us:8.1f} {half_us:8.1f}  ({needs})")
    columns = f"halves, normal capped to {half}, no partition; ~ not beside each other all the time"
    say(f"interfere  critical x, normal x alone on the same; {columns}")
    for critical, normal in product(KINDS, KINDS):
        three = [each for each in found if (each["critical"], each["normal"]) == (critical, normal)]
        marks = ["" if each["overlap"] >= 1 else "~" for each in three]
        cells = (
            f"{each['critical_x']:5.2f} {each['normal_x']:5.2f}{mark:1}"
            for each, mark in zip(three, marks, strict=True)
        )
        say(f"           {critical:16} {normal:16} " + "  ".join(cells))
    caps = [cap(each, found, alone_s) for each in workloads]
    for each in caps:
        what = f"{each.normal} beside {each.critical}, which runs {each.busy:.0%} of the time"
        latency, through = (f"x{one:.3f} -> x{other:.3f}" for one, other in (each.critical_x, each.throughput))
        gains = f"a cap of {half} gains" if each.gains else "no cap"
        say(f"cap        {each.workload}: {what}: critical {latency}, throughput {through}: {gains}")
    return {
        "multiprocessors": [ready.gpu.sm_count, half], "pairs": found, "caps": [asdict(each) for each in caps],
        "alone_s": [{"place": place, "kernel": kind, "s": took_s} for (place, kind), took_s in alone_s.items()],
    }  # fmt: skip
