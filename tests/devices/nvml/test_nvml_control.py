"""Clock locks and power limits set, verified and put back, on a fake of NVML."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts.mode import Mode
from edgetune.devices.control import DirectModes
from edgetune.devices.nvml.control import LOCK_UNKNOWN, NvmlControl
from edgetune.devices.nvml.gpu import TURING, VOLTA, Gpu, NoPermissionError, load_nvml
from edgetune.errors import DeviceError, NotRestoredError
from edgetune.testing.fake_jetson import FakeClock
from fakes.nvml import FakeGpu, FakeNvml, virtual_gpu


def control_of(fake: FakeGpu, *, may_set: bool = True) -> NvmlControl:
    clock = FakeClock()
    return NvmlControl(Gpu(load_nvml(FakeNvml([fake], clock)), 0), may_set=may_set, clock=clock)


def state(fake: FakeGpu) -> tuple[object, ...]:
    return fake.limit_mw, fake.graphics_lock, fake.memory_lock, fake.mig, fake.persistence


def test_an_idle_memory_clock_that_goes_with_few_others_is_not_on_offer() -> None:
    assert control_of(FakeGpu()).space.knobs["mem_mhz"] == (5001.0, 7001.0)


def test_power_limits_are_steps_of_five_watts_with_both_ends_and_the_default() -> None:
    limits_w = control_of(FakeGpu(limits_mw=(102_500, 143_750, 151_000))).space.knobs["power_limit_w"]
    assert limits_w == (102.5, 105, 110, 115, 120, 125, 130, 135, 140, 143.75, 145, 150, 151)


@pytest.mark.parametrize(
    ("fake", "knob", "words"),
    [
        (FakeGpu(architecture=TURING), "mem_mhz", "Ampere"),
        (FakeGpu(architecture=VOLTA - 1), "gpu_mhz", "Volta"),
        (FakeGpu(limits_mw=(80_000, 80_000, 80_000)), "power_limit_w", "80 W and no other"),
        (FakeGpu(unsupported={"nvmlDeviceGetPowerManagementLimitConstraints"}), "power_limit_w", "does not let"),
        (FakeGpu(clocks_mhz={}), "gpu_mhz", "does not list"),
        (virtual_gpu(), "gpu_mhz", "does not list"),
        (FakeGpu(mig=True), "power_limit_w", "MIG is on"),
    ],
)
def test_a_knob_that_cannot_be_set_says_why(fake: FakeGpu, knob: str, words: str) -> None:
    space = control_of(fake).space
    assert knob not in space.knobs
    assert words in space.fixed[knob]


def test_without_root_every_knob_is_fixed_and_names_the_doctor() -> None:
    space = control_of(FakeGpu(), may_set=False).space
    assert space.knobs == {}
    assert set(space.fixed) == {"gpu_mhz", "mem_mhz", "power_limit_w"}
    assert all("needs root: edgetune doctor" in reason for reason in space.fixed.values())


def test_a_snapshot_is_plain_and_honest_about_locks_and_has_what_modes_change() -> None:
    control = control_of(FakeGpu(limit_mw=187_654))
    found, noted = control.snapshot(), []
    control.learnt = lambda snapshot: noted.append(dict(snapshot))
    assert found == {}
    control.apply(Mode(gpu_mhz=900), found)
    assert noted == [{"gpu_clock_lock": LOCK_UNKNOWN}]
    control.apply(Mode(mem_mhz=5001, power_limit_w=150), found)
    assert noted[-1] == found
    assert json.loads(json.dumps(found)) == found
    assert found["power_limit_mw"] == "187654"
    assert found["gpu_clock_lock"] == found["memory_clock_lock"] == LOCK_UNKNOWN


def test_as_found_sets_nothing_and_leaves_the_locks_of_others_alone() -> None:
    fake = FakeGpu(graphics_lock=(750, 750))
    control = control_of(fake)
    fake.calls.clear()
    found = control.snapshot()
    control.apply(Mode(), found)
    control.apply(Mode(mem_mhz=5001), found)
    assert control.restore(found) == []
    assert fake.graphics_lock == (750, 750)
    assert {name for name, _ in fake.calls} == {"nvmlDeviceSetMemoryLockedClocks", "nvmlDeviceResetMemoryLockedClocks"}


def test_after_a_crash_another_process_resets_locks_that_may_be_ours() -> None:
    fake = FakeGpu(limit_mw=187_654)
    dead = control_of(fake)
    found = dead.snapshot()
    dead.apply(Mode(gpu_mhz=900, power_limit_w=150), found)
    assert control_of(fake).restore(json.loads(json.dumps(found))) == []
    assert state(fake)[:3] == (187_654, None, None)


def test_restoring_goes_on_after_a_failure_and_says_what_is_wrong() -> None:
    fake = FakeGpu()
    control = control_of(fake)
    found = control.snapshot()
    control.apply(Mode(gpu_mhz=900, mem_mhz=5001, power_limit_w=150), found)
    fake.unsupported.add("nvmlDeviceResetMemoryLockedClocks")
    (sentence,) = control.restore(found)
    assert "memory clock lock" in sentence
    assert (fake.limit_mw, fake.graphics_lock) == (230_000, None)
    fake.unsupported.clear()
    assert control.restore(found) == []
    assert fake.memory_lock is None


def test_root_in_a_container_may_still_be_refused() -> None:
    fake = FakeGpu(denied=True)
    control = control_of(fake)
    with pytest.raises(NoPermissionError, match="nvidia:0 cannot set gpu_mhz: setting it needs root: edgetune doctor"):
        control.apply(Mode(gpu_mhz=900), control.snapshot())


def test_a_lock_that_is_ignored_is_noticed() -> None:
    control = control_of(FakeGpu(ignores_locks=True))
    with pytest.raises(DeviceError, match="locked to gpu_mhz=900 but runs at 1800 MHz"):
        control.apply(Mode(gpu_mhz=900), control.snapshot())


def test_a_lock_that_somebody_undoes_is_no_longer_reported() -> None:
    fake = FakeGpu()
    control = control_of(fake)
    control.apply(Mode(gpu_mhz=900), control.snapshot())
    fake.graphics_lock = None
    assert control.read() == Mode(power_limit_w=230)


def test_a_limit_that_the_driver_changes_is_noticed() -> None:
    control = control_of(FakeGpu(rounds_mw=lambda _: 200_000))
    with pytest.raises(DeviceError, match="was set to 150 W but reads back 200 W"):
        control.apply(Mode(power_limit_w=150), control.snapshot())


def test_a_limit_above_one_from_elsewhere_is_no_limit() -> None:
    control = control_of(FakeGpu(enforced_mw=120_000))
    with pytest.raises(DeviceError, match="another limit of 120 W"):
        control.apply(Mode(power_limit_w=150), control.snapshot())


@pytest.mark.parametrize("unsupported", ["nvmlDeviceGetPowerManagementLimit", "nvmlDeviceSetPowerManagementLimit"])
def test_a_power_limit_that_a_laptop_does_not_tell_or_never_takes_is_not_on_offer(unsupported: str) -> None:
    fake = FakeGpu(unsupported={unsupported})
    control = control_of(fake)
    assert "does not let" in control.space.fixed["power_limit_w"]
    found = control.snapshot()
    assert control.apply(Mode(gpu_mhz=900), found).gpu_mhz == 900
    assert control.restore(found) == []


def test_a_power_limit_that_moves_by_itself_is_neither_set_nor_restored_unless_a_mode_sets_it() -> None:
    fake = FakeGpu(limit_mw=187_000)
    control = control_of(fake)
    found = control.snapshot()
    control.apply(Mode(gpu_mhz=900), found)
    fake.limit_mw = 201_000  # nvidia-powerd
    assert control.apply(Mode(gpu_mhz=1200), found).gpu_mhz == 1200
    assert control.restore(found) == []
    assert (fake.limit_mw, [name for name, _ in fake.calls if "PowerManagement" in name]) == (201_000, [])


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_whatever_is_set_and_fails_the_gpu_ends_as_found(data: st.DataObject) -> None:
    fake = FakeGpu(limit_mw=data.draw(st.integers(102_500, 251_000)))
    before, control = state(fake), control_of(fake)
    found = control.snapshot()
    setters = ("nvmlDeviceSetGpuLockedClocks", "nvmlDeviceSetMemoryLockedClocks", "nvmlDeviceSetPowerManagementLimit")
    for _ in range(data.draw(st.integers(0, 5))):
        chosen = {knob: data.draw(st.none() | st.sampled_from(values)) for knob, values in control.space.knobs.items()}
        mode = Mode.of({knob: value for knob, value in chosen.items() if value is not None})
        fake.unsupported = {data.draw(st.sampled_from(setters))} if data.draw(st.booleans()) else set()
        try:
            assert control.apply(mode, found).knobs().items() >= mode.knobs().items()
        except DeviceError:
            assert fake.unsupported
    fake.unsupported = set()
    assert control.restore(found) == []
    assert control.restore(found) == []
    assert state(fake) == before


def test_modes_set_by_this_process_raise_when_they_cannot_be_undone() -> None:
    fake = FakeGpu()
    modes = DirectModes(control_of(fake))
    modes.restore()  # nothing was set
    modes.apply(Mode(power_limit_w=150))
    fake.denied = True
    with pytest.raises(NotRestoredError, match="the power limit of nvidia:0 is not 230 W"):
        modes.restore()
    fake.denied = False
    modes.restore()
    assert fake.limit_mw == 230_000
