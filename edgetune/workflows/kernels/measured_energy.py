"""Runs combinations of power mode, policy and room on a GPU whose power can be read.

    mode set --> GPU opened --> kernels timed --> [ run of a policy and a room, power recorded ] ...  next mode
                                                  |-- settling --|------- counted -------|

Kernels, and what launching them costs, take other times in another mode: everything is opened anew there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace

from edgetune.artifacts.mode import Mode
from edgetune.devices.capabilities import Absent, PowerSensor
from edgetune.devices.device import Device
from edgetune.errors import EdgetuneError, InputError
from edgetune.stages.elastic.cuda.gpu_session import GpuSession
from edgetune.stages.elastic.energy import Choice, choice_of, with_room
from edgetune.stages.elastic.native.loop import loop_on
from edgetune.stages.elastic.policies import make_policy
from edgetune.stages.elastic.runner import check_none_failed
from edgetune.stages.elastic.work import GpuTask
from edgetune.stages.profiling.energy import measurable_s, power_figures, settling_s
from edgetune.stages.profiling.measure import apply_mode
from edgetune.units import NS, format_duration

USUAL_S = 5.0
"""How long requests come in each run unless told otherwise, where the sensor does not need longer."""


def sensor_of(device: Device) -> PowerSensor:
    """Return the power sensor of a device.

    Raises:
        InputError: it has none.
    """
    if isinstance(device.power, Absent):
        hint = "energy needs power readings; --device twin:orin-agx simulates them"
        raise InputError(f"{device.name} gives no power readings: {device.power.reason}", hint)
    return device.power


def run_s(power: PowerSensor, asked_s: float | None) -> float:
    """Return how long requests come in each run, s.

    Raises:
        InputError: it is too short for the sensor.
    """
    needed_s = measurable_s(power)
    if asked_s is not None and asked_s < needed_s:
        message = f"--duration {format_duration(asked_s)} is too short for a mean of {power.source}"
        raise InputError(message, f"at least {format_duration(needed_s)}; left out, it is long enough")
    return max(needed_s, USUAL_S) if asked_s is None else asked_s


class MeasuredTrials:
    """Combinations, run on a GPU; the device is as it was found at the end of the context.

    Args:
        device: The device whose power is read and whose mode is set.
        opener: Opens its GPU, and measures what launches cost there.
        fitted: Returns the tasks as compiled for the GPU, with the durations of their kernels.
        duration_s: How long requests come in a run, s.
        seed: Of random arrivals.
    """

    def __init__(
        self,
        device: Device,
        opener: Callable[[], AbstractContextManager[GpuSession]],
        fitted: Callable[[GpuSession], Sequence[GpuTask]],
        *,
        duration_s: float,
        seed: int = 0,
    ) -> None:
        self._device, self._power = device, sensor_of(device)
        self._opener, self._fitted, self._duration_s, self._seed = opener, fitted, duration_s, seed
        self._opened: tuple[Mode, GpuSession, Sequence[GpuTask]] | None = None
        self._closing = ExitStack()

    @contextmanager
    def ready(self) -> Iterator[MeasuredTrials]:
        """Reserve the device while the block runs; restore its mode at the end."""
        with self._device.exclusive(), ExitStack() as restoring:
            if not isinstance(self._device.modes, Absent):
                restoring.callback(self._device.modes.restore)
            with self._closing:
                yield self

    def __call__(self, mode: Mode, policy: str, room: float) -> Choice:
        """Run a combination.

        Raises:
            DeviceError: the mode cannot be set, or the GPU fails.
            EdgetuneError: a request failed, or power could not be read.
        """
        ready, tasks = self.session(mode)
        seen, device, power = with_room(ready.gpu, room), self._device, self._power
        made, throttled = make_policy(policy, tasks, seen), self._throttled()
        with power.record() as recording, ready.open_backend(tasks) as backend:
            loop = loop_on(made, backend, tasks, gpu=seen, duration_s=self._duration_s, seed=self._seed)
            begin_ns = device.clock.now_ns()
            loop.run()
            end_ns = device.clock.now_ns()
        check_none_failed(loop.requests, f"{policy} in {mode}: ")
        start_ns = begin_ns + round(settling_s(power) * NS)
        figures = power_figures(recording.readings, start_ns=start_ns, end_ns=end_ns, refresh_s=power.refresh_s)
        if figures.power_w is None:
            reason = recording.failure or figures.reason
            raise EdgetuneError(f"{policy} in {mode}: no power: {reason}", "give each run longer, e.g. --duration 20s")
        ran_s, power_w = (end_ns - begin_ns) / NS, figures.power_w
        choice = choice_of(loop.requests, mode, policy, room, ran_s=ran_s, power_w=power_w)
        return replace(choice, throttled=self._throttled() > throttled)

    def session(self, mode: Mode) -> tuple[GpuSession, Sequence[GpuTask]]:
        """Return the GPU in a mode, and the tasks as compiled and timed there.

        Raises:
            InputError: a kernel does not compile or fit.
            DeviceError: the mode cannot be set, or the GPU or its compiler is missing.
        """
        if self._opened is None or self._opened[0] != mode:
            self._closing.close()
            self._opened = None
            apply_mode(self._device, mode)
            ready = self._closing.enter_context(self._opener())
            self._opened = mode, ready, self._fitted(ready)
        return self._opened[1], self._opened[2]

    def _throttled(self) -> int:
        return 0 if isinstance(self._device.throttle, Absent) else self._device.throttle.read()
