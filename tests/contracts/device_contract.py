"""Contract tests of every device, as a test class to subclass.

    class TestMine(DeviceContract):
        @pytest.fixture
        def device(self):
            return open_mine()

A capability that the device lacks skips its tests, with the reason that the device itself gives.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import TypeVar

import pytest

from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.devices.capabilities import Absent, ModeControl, ModeSpace
from edgetune.devices.device import Device, LiveSource, ModelSource, TableSource
from edgetune.devices.mode_grids import STUDIED_GRIDS, studied_grid
from edgetune.devices.modes import default_modes, parse_modes
from edgetune.errors import DeviceError

_Capability = TypeVar("_Capability")


def _present(capability: _Capability | Absent) -> _Capability:
    if isinstance(capability, Absent):
        pytest.skip(f"absent: {capability.reason}")
    return capability


def some_modes(space: ModeSpace) -> list[Mode]:
    """Return a few modes of a space: the ends of its list, or its presets and the ends of each knob."""
    if space.listed is not None:
        return list(dict.fromkeys((space.listed[0], space.listed[len(space.listed) // 2], space.listed[-1])))
    ends = [Mode.of({knob: values[place]}) for knob, values in space.knobs.items() for place in (0, -1)]
    return [*space.presets.values(), *ends]


class DeviceContract:
    """The contract tests of a device. Subclass it and define a ``device`` fixture."""

    @pytest.fixture
    def device(self) -> Device:
        """Return the device under test."""
        raise NotImplementedError("give the subclass a `device` fixture")

    @pytest.fixture
    def modes(self, device: Device) -> Iterator[ModeControl]:
        """Yield the mode control and restore every setting afterwards."""
        control = _present(device.modes)
        yield control
        control.restore()

    def test_only_this_machine_tells_what_else_runs_on_it(self, device: Device) -> None:
        assert device.load is None or isinstance(device.source, LiveSource)

    def test_it_has_a_name_and_a_description_of_one_line(self, device: Device) -> None:
        assert device.name.strip()
        assert device.description.strip()
        assert "\n" not in device.name + device.description

    def test_workloads_can_run_on_it(self, device: Device) -> None:
        assert isinstance(device.source, (LiveSource, ModelSource, TableSource))

    def test_what_is_simulated_says_so(self, device: Device) -> None:
        assert type(device.simulated) is bool
        assert bool(device.conditions.get("simulated", False)) == device.simulated

    def test_absent_capabilities_have_a_reason(self, device: Device) -> None:
        for capability in (device.power, device.modes, device.temperature, device.throttle):
            if isinstance(capability, Absent):
                assert capability.reason.strip()
                assert "\n" not in capability.reason

    def test_the_clock_counts_integer_nanoseconds_and_never_runs_back(self, device: Device) -> None:
        times_ns = [device.clock.now_ns() for _ in range(100)]
        assert all(type(time_ns) is int for time_ns in times_ns)
        assert times_ns == sorted(times_ns)

    def test_sleeping_lets_at_least_that_time_pass(self, device: Device) -> None:
        before_ns = device.clock.now_ns()
        device.clock.sleep_s(0.02)
        assert device.clock.now_ns() - before_ns >= 20_000_000

    def test_values_of_a_knob_ascend_and_are_plain_numbers(self, modes: ModeControl) -> None:
        for knob, values in modes.space.knobs.items():
            assert knob in KNOBS
            assert values
            assert all(type(value) in (int, float) and value > 0 for value in values)
            assert all(low < high for low, high in pairwise(values))

    def test_a_knob_is_settable_or_fixed_but_not_both(self, modes: ModeControl) -> None:
        space = modes.space
        assert not set(space.knobs) & set(space.fixed)
        assert set(space.fixed) <= set(KNOBS)
        assert all(reason.strip() for reason in space.fixed.values())

    def test_presets_grids_and_lists_hold_permitted_values_only(self, modes: ModeControl) -> None:
        space = modes.space
        for mode in (*space.presets.values(), *(space.listed or ())):
            for knob, value in mode.knobs().items():
                assert value in space.knobs[knob]
        for grid in filter(None, (studied_grid(space, count) for count in STUDIED_GRIDS)):
            for knob, values in grid.items():
                assert set(values) <= set(space.knobs[knob])

    def test_a_mode_reads_back_as_it_was_set(self, modes: ModeControl) -> None:
        for mode in some_modes(modes.space):
            read_back = modes.apply(mode).knobs()
            assert {knob: read_back[knob] for knob in mode.knobs()} == pytest.approx(mode.knobs())

    def test_the_default_modes_can_be_set(self, modes: ModeControl) -> None:
        chosen = default_modes(modes.space)
        assert chosen
        modes.apply(chosen[0])

    def test_every_grid_that_is_asked_for_can_be_set(self, modes: ModeControl) -> None:
        grid = parse_modes("grid:5", modes.space)
        assert 1 <= len(grid) <= 5
        modes.apply(grid[-1])

    def test_restoring_twice_is_harmless(self, modes: ModeControl) -> None:
        modes.apply(some_modes(modes.space)[0] if modes.space.knobs else Mode())
        modes.restore()
        modes.restore()

    def test_after_restoring_modes_can_be_set_again(self, modes: ModeControl) -> None:
        for mode in some_modes(modes.space)[:1]:
            modes.apply(mode)
            modes.restore()
            assert modes.apply(mode).knobs().items() >= mode.knobs().items()

    def test_a_value_outside_the_table_is_refused(self, modes: ModeControl) -> None:
        for knob, values in modes.space.knobs.items():
            with pytest.raises(DeviceError):
                modes.apply(Mode.of({knob: 2 * values[-1] + 1}))

    def test_a_knob_that_it_lacks_is_refused(self, modes: ModeControl) -> None:
        for knob in set(KNOBS) - set(modes.space.knobs):
            with pytest.raises(DeviceError):
                modes.apply(Mode.of({knob: 1}))

    def test_power_readings_lie_in_their_recording_in_order(self, device: Device) -> None:
        sensor = _present(device.power)
        assert sensor.source.strip()
        assert sensor.refresh_s > 0
        assert sensor.settle_s >= 0
        start_ns = device.clock.now_ns()
        with sensor.record() as recording:
            device.clock.sleep_s(5 * sensor.refresh_s)
        stop_ns = device.clock.now_ns()
        times_ns = [reading.time_ns for reading in recording.readings]
        assert all(start_ns <= time_ns <= stop_ns for time_ns in times_ns)
        assert all(earlier < later for earlier, later in pairwise(times_ns))
        assert all(reading.power_w > 0 for reading in recording.readings)

    def test_a_closed_recording_is_complete(self, device: Device) -> None:
        sensor = _present(device.power)
        with sensor.record() as recording:
            device.clock.sleep_s(3 * sensor.refresh_s)
        count = len(recording.readings)
        device.clock.sleep_s(2 * sensor.refresh_s)
        assert len(recording.readings) == count

    def test_temperature_is_in_a_range_that_electronics_survive(self, device: Device) -> None:
        read_c = _present(device.temperature).read_c()
        assert read_c is None or -40 <= read_c <= 125

    def test_throttling_is_counted_upwards(self, device: Device) -> None:
        counter = _present(device.throttle)
        first, second = counter.read(), counter.read()
        assert 0 <= first <= second
