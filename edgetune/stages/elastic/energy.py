"""The way to answer with the least energy: power mode, policy and room of normal work, under the critical deadline.

    power mode    clocks: how fast the GPU computes, what it draws
    policy        who goes first                                     each combination is simulated or run; those that
    room          share of the multiprocessors that pieces           answer every critical request in time are compared
                  of normal kernels may take                         by the energy of a normal request

Normal work that is given less room keeps critical work waiting less, so that a slower power mode may meet its
deadline. Combinations are many: a coarse grid of modes is tried, then the neighbours of the best one, until none is
better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from edgetune.artifacts.mode import Mode
from edgetune.serving.clock import EventClock
from edgetune.stages.elastic.backend import LaunchRecord, RequestRecord
from edgetune.stages.elastic.gpu import Gpu
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.model import GpuTimingModel, seen_by_policies
from edgetune.stages.elastic.policies import make_policy
from edgetune.stages.elastic.simulated import SimulatedGpu
from edgetune.stages.elastic.work import GpuTask
from edgetune.units import NS

ROOMS = (1.0, 0.75, 0.5, 0.25)
"""Shares of the multiprocessors that normal work may be given."""
_COARSE = 3
"""Levels of a knob in the coarse grid: both ends and the middle."""
_KNOBS = ("cpu_mhz", "gpu_mhz", "mem_mhz", "power_limit_w")


@dataclass(frozen=True, slots=True)
class GpuInMode:
    """A GPU in a power mode.

    Args:
        mode: The mode.
        gpu: Its limits and speeds there.
        model: Its other times, and those of the host.
        rest_w: Power of the board with an idle GPU and a busy host, W.
        active_w: More while a kernel runs, W.
        flop_j, byte_j: Energy of a floating-point operation and of a byte of memory traffic, J.
    """

    mode: Mode
    gpu: Gpu
    model: GpuTimingModel
    rest_w: float
    active_w: float
    flop_j: float
    byte_j: float


@dataclass(frozen=True, slots=True)
class Choice:
    """A combination, and what it gave.

    Args:
        mode, policy, room: The combination.
        latency_s: The longest of a critical request, s.
        late: Critical requests that were answered late, or never although they were due.
        critical_per_s, normal_per_s: Answered requests a second.
        unanswered: Normal requests that came at a rate and were not answered, but for one in flight of each task.
        power_w: Mean power, W.
        throttled: Whether the device throttled meanwhile, so that it was in another mode.
        runs: How often it was tried.
    """

    mode: Mode
    policy: str
    room: float
    latency_s: float
    late: int
    critical_per_s: float
    normal_per_s: float
    unanswered: int
    power_w: float
    throttled: bool = False
    runs: int = 1

    @property
    def feasible(self) -> bool:
        """Whether every critical request was answered in time, and normal work kept up with its rate."""
        return self.late == 0 and self.unanswered == 0 and self.normal_per_s > 0 and not self.throttled

    @property
    def energy_j(self) -> float:
        """Energy of a normal request, J; that of the critical requests beside it is part of it."""
        return self.power_w / self.normal_per_s if self.normal_per_s else math.inf


@dataclass(frozen=True, slots=True)
class EnergyPlan:
    """The result of a search.

    Args:
        tried: All that were simulated or run, in order.
        combinations: How many there are.
    """

    tried: tuple[Choice, ...]
    combinations: int

    @property
    def best(self) -> Choice | None:
        """The feasible combination with the least energy of a normal request; ``None`` where none is feasible."""
        return _least(self.tried)

    def best_by(self, policy: str, room: float | None = None) -> Choice | None:
        """Return the best feasible one that was tried of a policy, and of a room."""
        return _least(each for each in self.tried if each.policy == policy and room in (None, each.room))


def try_out(at: GpuInMode, tasks: Sequence[GpuTask], policy: str, room: float, *, duration_s: float) -> Choice:
    """Simulate tasks in a power mode.

    Args:
        at: The GPU in the mode.
        tasks: At least one is critical, and every critical one has a deadline.
        policy: Name of a policy.
        room: Share of the multiprocessors that the policy counts on for pieces of normal kernels.
        duration_s: How long requests come, s.
    """
    seen = with_room(seen_by_policies(at.gpu, at.model), room)
    simulated = SimulatedGpu(EventClock(), at.gpu, tasks, model=at.model, most_residencies=0)
    loop = ElasticLoop(make_policy(policy, tasks, seen), simulated, tasks, gpu=seen, duration_s=duration_s)
    loop.run()
    ended_s = simulated.now_ns() / NS or duration_s  # at once where no request came
    return choice_of(loop.requests, at.mode, policy, room, ran_s=ended_s, power_w=_power_w(at, loop.launches, ended_s))


def with_room(gpu: Gpu, room: float) -> Gpu:
    """Return a GPU as policies see it that may count on a share of its multiprocessors."""
    return replace(gpu, sm_count=max(1, round(room * gpu.sm_count)))


def choice_of(
    requests: Sequence[RequestRecord], mode: Mode, policy: str, room: float, *, ran_s: float, power_w: float
) -> Choice:
    """Return what a combination gave.

    Args:
        requests: All of its run.
        mode, policy, room: The combination.
        ran_s: How long the run took, s.
        power_w: Mean power, W.
    """
    answered = [each for each in requests if each.outcome == "ok"]
    critical = [each for each in answered if each.task.critical]
    left: dict[str, int] = {}
    for each in requests:
        if not (each.task.critical or each.task.closed) and each.outcome != "ok":
            left[each.task.name] = left.get(each.task.name, 0) + 1
    overdue = sum(
        each.task.critical and each.outcome != "ok" and each.due_ns is not None and each.due_ns <= each.ended_ns
        for each in requests
    )
    return Choice(
        mode=mode,
        policy=policy,
        room=room,
        latency_s=max((each.ended_ns - each.arrived_ns for each in critical), default=0) / NS,
        late=sum(each.met is False for each in critical) + overdue,
        critical_per_s=len(critical) / ran_s,
        normal_per_s=(len(answered) - len(critical)) / ran_s,
        unanswered=sum(max(0, count - 1) for count in left.values()),
        power_w=power_w,
    )


def _power_w(at: GpuInMode, launches: Iterable[LaunchRecord], duration_s: float) -> float:
    """Return the mean power of a run: at rest, while kernels run, and of what they compute and move."""
    flop = drawn_bytes = 0.0
    busy_ns, until_ns = 0, 0
    for each in sorted(launches, key=lambda each: each.started_ns or each.launched_ns):
        call, count = each.launch.what, each.launch.count
        flop, drawn_bytes = flop + count * call.flop_per_block, drawn_bytes + count * call.bytes_per_block
        begun_ns = max(each.started_ns or each.ended_ns, until_ns)
        busy_ns, until_ns = busy_ns + max(0, each.ended_ns - begun_ns), max(until_ns, each.ended_ns)
    worked_j = at.flop_j * flop + at.byte_j * drawn_bytes
    return at.rest_w + at.active_w * busy_ns / NS / duration_s + worked_j / duration_s


Trial = Callable[[Mode, str, float], Choice]
"""Tries one combination out."""


def least_energy(modes: Sequence[Mode], policies: Sequence[str], rooms: Sequence[float], trial: Trial) -> EnergyPlan:
    """Search for the combination with the least energy of a normal request.

    CPU cores beside the one that launches kernels only draw power, so that of modes which differ in them alone the one
    with the fewest counts.

    Args:
        modes: At least one.
        policies, rooms: At least one each; the first room is that of the coarse grid.
        trial: Simulates or runs a combination.
    """
    fewest = _fewest_cores(modes)
    levels = [sorted(set(values)) for values in zip(*fewest, strict=True)]
    axes: list[Sequence[object]] = [*levels, list(policies), list(rooms)]
    tried: dict[tuple[int, ...], Choice] = {}

    def at(place: tuple[int, ...]) -> Choice | None:
        if place not in tried:
            clocks = tuple(axis[i] for axis, i in zip(levels, place, strict=False))
            if clocks not in fewest:
                return None
            tried[place] = trial(fewest[clocks], policies[place[-2]], rooms[place[-1]])
        return tried[place]

    for coarse in product(*(_spread(len(axis)) for axis in levels), range(len(policies)), [0]):
        at(coarse)
    place = min(tried, key=lambda each: _rank(tried[each]), default=None)
    while place is not None:
        around = [each for each in _neighbours(place, axes) if at(each) is not None]
        nearest = min(around, key=lambda each: _rank(tried[each]), default=place)
        place = nearest if _rank(tried[nearest]) < _rank(tried[place]) else None
    return EnergyPlan(tuple(tried.values()), combinations(modes, policies, rooms))


def combinations(modes: Sequence[Mode], policies: Sequence[str], rooms: Sequence[float]) -> int:
    """Return how many combinations ``least_energy`` chooses from."""
    return len(_fewest_cores(modes)) * len(policies) * len(rooms)


def confirmed(plan: EnergyPlan, trial: Trial) -> EnergyPlan:
    """Return a plan whose best combination was tried twice.

    The least of many readings is one that happened to be low, and a deadline that was met may be missed the next time.
    So the best is tried again, and what both runs gave counts; if that makes another the best, so is that one.
    """
    tried = list(plan.tried)
    while (best := _least(tried)) is not None and best.runs == 1:
        tried[tried.index(best)] = _together(best, trial(best.mode, best.policy, best.room))
    return replace(plan, tried=tuple(tried))


def _together(one: Choice, other: Choice) -> Choice:
    """Return what two runs of a combination, of the same length, gave."""
    return replace(
        one,
        latency_s=max(one.latency_s, other.latency_s),
        late=one.late + other.late,
        critical_per_s=(one.critical_per_s + other.critical_per_s) / 2,
        normal_per_s=(one.normal_per_s + other.normal_per_s) / 2,
        unanswered=one.unanswered + other.unanswered,
        power_w=(one.power_w + other.power_w) / 2,
        throttled=one.throttled or other.throttled,
        runs=one.runs + other.runs,
    )


def _fewest_cores(modes: Iterable[Mode]) -> dict[tuple[float, ...], Mode]:
    """Return modes by their clocks, of those that differ in cores alone the one with the fewest."""
    fewest: dict[tuple[float, ...], Mode] = {}
    for mode in sorted(modes, key=lambda mode: mode.cpu_cores or 0):
        fewest.setdefault(_clocks(mode), mode)
    return fewest


def _clocks(mode: Mode) -> tuple[float, ...]:
    return tuple(getattr(mode, knob) or 0.0 for knob in _KNOBS)


def _spread(count: int) -> list[int]:
    """Return places on an axis, both ends among them."""
    return sorted({round(i * (count - 1) / (_COARSE - 1)) for i in range(_COARSE)})


def _neighbours(place: tuple[int, ...], axes: Sequence[Sequence[object]]) -> Iterator[tuple[int, ...]]:
    """Yield the places one step away, and those with a slower clock for another faster one."""
    steps = [step for step in product((-1, 0, 1), repeat=len(axes)) if 0 < sum(map(abs, step)) <= 1 or _traded(step)]
    for step in steps:
        other = tuple(i + by for i, by in zip(place, step, strict=True))
        if all(0 <= i < len(axis) for i, axis in zip(other, axes, strict=True)):
            yield other


def _traded(step: Sequence[int]) -> bool:
    """Return whether a step trades one clock for another, and changes nothing else."""
    return sorted(step) == [-1, *[0] * (len(step) - 2), 1] and not any(step[len(_KNOBS) :])


def _rank(choice: Choice) -> tuple[bool, float]:
    """Return a key that orders choices: feasible ones by energy before others by how late they are."""
    return (not choice.feasible, choice.energy_j if choice.feasible else choice.late + choice.unanswered)


def _least(choices: Iterable[Choice]) -> Choice | None:
    return min((each for each in choices if each.feasible), key=lambda each: each.energy_j, default=None)
