"""Write a mode as a ``POWER_MODEL`` of an nvpmodel configuration, in the grammar of ``nvpmodel_grammar``."""

from __future__ import annotations

from collections.abc import Sequence

from edgetune.artifacts.mode import Mode
from edgetune.devices.jetson.catalog import CatalogueBoard
from edgetune.devices.jetson.nvpmodel_grammar import UNCAPPED, PowerModel

Line = tuple[str, str, str]
"""Parameter, argument and value of one line, e.g. ``("GPU", "MAX_FREQ", "612000000")``."""


def lines_of(model: PowerModel) -> list[Line]:
    """Return the lines of a parsed mode; ``UNCAPPED`` becomes -1."""
    return [(s.param, s.argument, "-1" if s.value == UNCAPPED else str(s.value)) for s in model.settings]


def catalogue_lines(board: CatalogueBoard) -> list[Line]:
    """Return the lines of a board's mode without limits, or of its first mode, as the catalogue describes them."""
    file = board.presets[0]
    preset = next((mode for mode in file.modes if mode.gpu_khz[1] is None), file.modes[0])
    lines = [("CPU_ONLINE", f"CORE_{cpu}", str(int(cpu in preset.cores))) for cpu in board.cpus]
    for mask, value in preset.masks.items():
        lines.append((mask.upper().replace("_PG_MASK", "_POWER_GATING"), mask.upper(), str(value)))
    lines.append(("GPU_POWER_CONTROL_ENABLE", "GPU_PWR_CNTL_EN", "on"))
    for name in preset.cpu_khz:
        lines += [(name, "MIN_FREQ", "0"), (name, "MAX_FREQ", "-1")]
    lines += [("GPU", "MIN_FREQ", "0"), ("GPU", "MAX_FREQ", "-1")]
    return [*lines, ("GPU_POWER_CONTROL_DISABLE", "GPU_PWR_CNTL_DIS", "auto"), ("EMC", "MAX_FREQ", "-1")]


def nvpmodel_block(mode: Mode, base: Sequence[Line], identity: int, name: str) -> str:
    """Return the block of a mode, with comments on lines of their own: no file of NVIDIA's has one behind a value.

    CPU and GPU are pinned: their lower and upper limits are equal. nvpmodel only caps the memory clock.

    Args:
        mode: Clocks in MHz; a knob that is ``None`` keeps its lines of ``base``.
        base: Lines of another mode of this board; their order is kept.
        identity: A free number.
        name: A free name.
    """
    cpus = [int(argument.removeprefix("CORE_")) for param, argument, _ in base if param == "CPU_ONLINE"]
    was_on = {f"CORE_{cpu}" for cpu in cpus} - {a for p, a, value in base if p == "CPU_ONLINE" and value == "0"}
    fixed = 0 if 0 in cpus else 1  # the files of TX2 leave out core 0, which always runs
    ordered = sorted(cpus, key=lambda cpu: (cpu != 0, f"CORE_{cpu}" not in was_on, cpu))
    on = ordered if mode.cpu_cores is None else ordered[: mode.cpu_cores - fixed]
    text, told = [f"< POWER_MODEL ID={identity} NAME={name} >"], ""
    for param, argument, value in base:
        new, what = value, "as in the mode that this one is derived from"
        if param == "CPU_ONLINE" and mode.cpu_cores is not None:
            running = int(argument.removeprefix("CORE_")) in on
            new, what = str(int(running)), "this core runs" if running else "this core is switched off"
        elif argument in ("MIN_FREQ", "MAX_FREQ"):
            if param == "GPU" and mode.gpu_mhz is not None:
                new, what = str(round(mode.gpu_mhz * 1e6)), "both limits of the GPU clock, Hz"
            elif param == "EMC" and mode.mem_mhz is not None:
                new, what = str(round(mode.mem_mhz * 1e6)), "limit of the memory clock, Hz; nvpmodel cannot pin it"
            elif param.startswith("CPU_") and mode.cpu_mhz is not None:
                new, what = str(round(mode.cpu_mhz * 1e3)), "both limits of each cluster, kHz"
        text += [] if what == told else [f"# {what}"]
        text.append(f"{param} {argument} {new}")
        told = what
    return "\n".join(text) + "\n"
