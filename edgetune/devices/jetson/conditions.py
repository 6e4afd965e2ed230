"""What a result on a Jetson depends on, for the head of every artifact; read, never set, and ``None`` where unknown."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from edgetune.devices.jetson.detect import Jetson, detect_jetson
from edgetune.devices.jetson.fan import read_fan
from edgetune.devices.jetson.nvpmodel import Nvpmodel, read_nvpmodel
from edgetune.devices.jetson.presets import Tables, caps_of
from edgetune.devices.software import software_versions
from edgetune.devices.sysfs import Sysfs

_CPU_GOVERNORS = "sys/devices/system/cpu/cpufreq/policy*/scaling_governor"
_GPU_GOVERNOR_FOLDERS = ("gpu-gpc-0", "*gpu", "*.ga10b", "*.gv11b", "*.gp10b")
"""Names of the GPU's clock in ``sys/class/devfreq``, Thor first. Source: NVIDIA's nvpmodel files, and jetson_stats."""


def board_conditions(sysfs: Sysfs, tables: Tables | None = None) -> dict[str, Any]:
    """Return the facts about the board that decide what a measurement on it means.

    Args:
        sysfs: The board's files.
        tables: The board's own values of each knob, with which the limits of the active mode are told.
    """
    board = detect_jetson(sysfs)
    nvpmodel = read_nvpmodel(sysfs)
    known = None if isinstance(nvpmodel, str) else nvpmodel
    fan = read_fan(sysfs, known.fan_profile if known else None)
    return {
        **_identity(board),
        **_power_mode(nvpmodel),
        "caps": caps_of(known, tables) if known and tables else None,
        "governors": {"cpu": _cpu_governors(sysfs), "gpu": _gpu_governor(sysfs)},
        "fan": asdict(fan) if fan else None,
        **software_versions(),
    }


def _identity(board: Jetson | None) -> dict[str, Any]:
    names = ("model", "module", "soc", "super_variant", "jetpack", "l4t", "kernel", "container")
    facts = {name: getattr(board, name) if board else None for name in names}
    facts["board"] = facts.pop("model")
    return facts | {"board_notes": list(board.notes) if board else ["this is not a Jetson"]}


def _power_mode(nvpmodel: Nvpmodel | str) -> dict[str, Any]:
    """Return the active mode and the file that defines it, or what is known of why there is none."""
    if isinstance(nvpmodel, str):
        return {"nvpmodel": {"mode": None, "id": None, "file": None, "sha256": None, "notes": [nvpmodel]}}
    model = nvpmodel.active_model
    facts = {"mode": model.name if model else None, "id": nvpmodel.active, "file": nvpmodel.path}
    return {"nvpmodel": {**facts, "sha256": nvpmodel.sha256, "notes": list(nvpmodel.notes)}}


def _cpu_governors(sysfs: Sysfs) -> str | None:
    """Return the governor of all policies, or all of them where they differ."""
    found = sorted({word for path in sysfs.glob(_CPU_GOVERNORS) if (word := _read(sysfs, path))})
    return ", ".join(found) or None


def _gpu_governor(sysfs: Sysfs) -> str | None:
    for folder in _GPU_GOVERNOR_FOLDERS:
        for path in sysfs.glob(f"sys/class/devfreq/{folder}/governor"):
            if word := _read(sysfs, path):
                return word
    return None


def _read(sysfs: Sysfs, path: str) -> str | None:
    try:
        return sysfs.read(path)
    except (OSError, ValueError):  # an inactive policy answers EBUSY
        return None
