"""What ``edgetune doctor`` tells of a Jetson: what it is, and what this user may read and set; nothing is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgetune.devices.device import Absent, PowerSensor
    from edgetune.devices.jetson.detect import Jetson
    from edgetune.devices.jetson.nvpmodel import Nvpmodel
    from edgetune.devices.sysfs import Sysfs

Row = dict[str, str]
"""``what``, its ``state`` (yes, as root, no) and a ``note``."""

_SETTINGS = {"cpu_cores": "CPU cores", "cpu_mhz": "CPU clock", "gpu_mhz": "GPU clock", "mem_mhz": "memory clock"}


def board_files(root: Path) -> tuple[Sysfs, str | None]:
    """Return the kernel's files below ``root``, and what is made up about them, if they are a fake board's."""
    from edgetune.devices.sysfs import Sysfs

    if root == Path("/"):
        return Sysfs(root), None
    from edgetune.testing.fake_jetson import MADE_UP, is_fake
    from edgetune.testing.fake_kernel import FakeKernel

    return (FakeKernel(root), MADE_UP) if is_fake(root) else (Sysfs(root), None)


def examine_board(root: Path) -> dict[str, Any] | None:
    """Return what the Jetson below ``root`` is and what can be done with it, as plain data; ``None`` without one."""
    from edgetune.devices.jetson.detect import detect_jetson
    from edgetune.devices.jetson.nvpmodel import read_nvpmodel

    sysfs, made_up = board_files(root)
    jetson = detect_jetson(sysfs)
    if jetson is None:
        return None
    nvpmodel = read_nvpmodel(sysfs)
    notes = (*jetson.notes, *((nvpmodel,) if isinstance(nvpmodel, str) else nvpmodel.notes))
    return {
        "model": jetson.model,
        "made_up": made_up,
        "module": jetson.module,
        "soc": jetson.soc,
        "l4t": jetson.l4t,
        "jetpack": jetson.jetpack,
        "kernel": jetson.kernel,
        "power_mode": _power_mode(nvpmodel),
        "container": jetson.container,
        "notes": list(notes),
        "abilities": [*_readings(sysfs, jetson), *_settings(sysfs), journal_row("jetson", root)],
    }


def _power_mode(nvpmodel: Nvpmodel | str) -> str | None:
    if isinstance(nvpmodel, str) or nvpmodel.active_model is None:
        return None
    return f"{nvpmodel.active_model.name} (number {nvpmodel.active} of {nvpmodel.path})"


def _readings(sysfs: Sysfs, jetson: Jetson) -> Iterator[Row]:
    from edgetune.devices.clock import MonotonicClock
    from edgetune.devices.device import Absent
    from edgetune.devices.jetson.power import open_board_power
    from edgetune.devices.jetson.sensors import open_board_thermometer, open_board_throttle

    yield _power(open_board_power(sysfs, MonotonicClock(), jetson.soc or ""))
    thermometer = open_board_thermometer(sysfs)
    if isinstance(thermometer, Absent):
        yield row("read temperatures", "no", thermometer.reason)
    else:
        yield row("read temperatures", "yes", ", ".join(thermometer.read_all()))
    throttle = open_board_throttle(sysfs)
    if isinstance(throttle, Absent):
        yield row("read throttling", "no", throttle.reason)
    else:
        yield row("read throttling", "yes", ", ".join(throttle.counts()) or "throttling devices")


def _power(sensor: PowerSensor | Absent) -> Row:
    from edgetune.devices.device import Absent
    from edgetune.devices.jetson.power import BoardPower

    if isinstance(sensor, Absent):
        return row("read power", "no", sensor.reason)
    note = sensor.conditions().get("power_note") if isinstance(sensor, BoardPower) else None
    return row("read power", "yes", f"{sensor.source}; {note}" if note else sensor.source)


def _settings(sysfs: Sysfs) -> Iterator[Row]:
    """Return a row for each knob, and one for the named modes."""
    from edgetune.devices.guardian.controls import open_jetson_control
    from edgetune.errors import DeviceError
    from edgetune.processes.privilege import holds_root

    try:
        space = open_jetson_control(sysfs).space
    except DeviceError as error:
        yield row("set modes", "no", error.message)
        return
    privileged = getattr(sysfs, "user", "root" if holds_root() else "user") == "root"
    for knob, name in _SETTINGS.items():
        if values := space.knobs.get(knob):
            unit = " MHz" if knob.endswith("_mhz") else ""
            yield row(f"set {name}", "yes", f"{len(values)} values, {values[0]:g} to {values[-1]:g}{unit}")
        else:
            why = space.fixed.get(knob, "this kernel does not offer it")
            yield row(f"set {name}", "as root" if "needs root" in why and not privileged else "no", why)
    if privileged and space.presets:
        withheld = f"; not now: {', '.join(space.withheld)}" if space.withheld else ""
        yield row("set named modes", "yes", ", ".join(space.presets) + withheld)


def journal_row(device: str, root: Path) -> Row:
    """Say whether an earlier run, or ``edgetune device set``, left something to be put back."""
    from edgetune.devices.guardian.journal import Journals
    from edgetune.processes.privilege import as_root

    journals, found = Journals(device, root), "every setting is as found"
    what, remedy = "left by earlier runs", f"edgetune device restore {device}"

    def look() -> set[str]:
        return {path.name for path in journals.folder.iterdir()}

    try:
        left = as_root(look) if root == Path("/") else look()
    except FileNotFoundError:
        return row(what, "no", found)
    except OSError:
        return row(what, "hidden", f"only root can look; {remedy} puts back what is left, if any")
    if journals.path("run").name in left:
        return row(what, "yes", f"a run is going on, or was killed: {remedy} puts back what it found")
    if journals.path("kept").name in left:
        return row(what, "yes", f"a mode set to stay: {remedy} puts back what was found before")
    return row(what, "no", found)


def row(what: str, state: str, note: str) -> Row:
    """Return one row."""
    return {"what": what, "state": state, "note": note}
