"""A scripted device for tests: a clock that only tests advance, minibatches and power as functions of time.

It models no hardware. Tests compare the profiler with closed-form answers on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpsTable
from edgetune.devices.capabilities import Absent, ModeSpace, PowerReading
from edgetune.devices.cpu import CpuLoad
from edgetune.devices.device import Device, Minibatches, Runner
from edgetune.errors import EdgetuneError
from edgetune.testing.fake_jetson import FakeClock

_NOT_SCRIPTED = Absent("not scripted")


@dataclass(slots=True)
class FakePower:
    """A sensor whose readings are exact means of a waveform."""

    clock: FakeClock
    energy_j: Callable[[float], float]
    refresh_s: float = 0.1
    settle_s: float = 0.0
    limit: int | None = None
    source: str = "fake"
    failure: str | None = None

    @contextmanager
    def record(self) -> Iterator[_FakeRecording]:
        recording = _FakeRecording(self, self.clock.now_ns())
        yield recording
        recording.end_ns = self.clock.now_ns()


@dataclass(slots=True)
class _FakeRecording:
    power: FakePower
    start_ns: int
    end_ns: int | None = None

    @property
    def failure(self) -> str | None:
        return self.power.failure

    @property
    def readings(self) -> Sequence[PowerReading]:
        end_ns = self.power.clock.now_ns() if self.end_ns is None else self.end_ns
        step_ns = round(self.power.refresh_s * 1e9)
        times = range(self.start_ns + step_ns, end_ns + 1, step_ns)
        return [PowerReading(t, self._mean_w(t - step_ns, t)) for t in times][: self.power.limit]

    def _mean_w(self, from_ns: int, to_ns: int) -> float:
        used_j = self.power.energy_j(to_ns / 1e9) - self.power.energy_j(from_ns / 1e9)
        return used_j / ((to_ns - from_ns) / 1e9)


@dataclass(slots=True)
class FakeModes:
    """Mode control that accepts every mode, or returns scripted modes."""

    answer: Callable[[Mode], Mode] = lambda mode: mode
    drift: list[Mode] = field(default_factory=list)
    applied: list[Mode] = field(default_factory=list)
    restored: int = 0
    space: ModeSpace = field(default_factory=lambda: ModeSpace(knobs={"gpu_mhz": (300.0, 600.0, 900.0)}))

    def apply(self, mode: Mode) -> Mode:
        self.applied.append(mode)
        return self.answer(mode)

    def read(self) -> Mode:
        return self.drift.pop(0) if self.drift else self.answer(self.applied[-1])

    def restore(self) -> None:
        self.restored += 1


@dataclass(slots=True)
class FakeThrottle:
    """A counter that returns the values of a list, then repeats the last."""

    counts: list[int]

    def read(self) -> int:
        return self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]


@dataclass(slots=True)
class FakeThermometer:
    """A thermometer that returns the values of a list, then repeats the last."""

    degrees_c: list[float | None]

    def read_c(self) -> float | None:
        return self.degrees_c.pop(0) if len(self.degrees_c) > 1 else self.degrees_c[0]


class FakeRunner:
    """Minibatches with scripted durations."""

    def __init__(
        self,
        clock: FakeClock,
        duration_ns: Callable[[int], int],
        *,
        gap_ns: int = 0,
        fails_with: EdgetuneError | None = None,
    ) -> None:
        self._clock = clock
        self._duration_ns = duration_ns
        self._gap_ns = gap_ns
        self._fails_with = fails_with
        self.calls: list[int] = []
        self.closed = False

    def run(self, minibatches: int) -> Minibatches:
        if self._fails_with is not None:
            raise self._fails_with
        done = sum(self.calls)
        self.calls.append(minibatches)
        if done:
            self._clock.advance_ns(self._gap_ns)
        start_ns, end_ns = [], []
        for index in range(done, done + minibatches):
            start_ns.append(self._clock.now_ns())
            self._clock.advance_ns(self._duration_ns(index))
            end_ns.append(self._clock.now_ns())
        return Minibatches(start_ns, end_ns)

    def close(self) -> None:
        self.closed = True


class FakeSource:
    """A model source that opens a given runner."""

    def __init__(self, open_runner: Callable[[OpsTable], Runner]) -> None:
        self._open_runner = open_runner

    def open(self, ops: OpsTable) -> Runner:
        return self._open_runner(ops)


def fake_device(
    clock: FakeClock,
    source: FakeSource,
    *,
    power: FakePower | Absent = _NOT_SCRIPTED,
    modes: FakeModes | Absent = _NOT_SCRIPTED,
    temperature: FakeThermometer | Absent = _NOT_SCRIPTED,
    throttle: FakeThrottle | Absent = _NOT_SCRIPTED,
    load: CpuLoad | None = None,
) -> Device:
    return Device(
        name="fake",
        description="scripted for a test",
        simulated=True,
        source=source,
        clock=clock,
        power=power,
        modes=modes,
        temperature=temperature,
        throttle=throttle,
        conditions={"simulated": True},
        load=load,
    )
