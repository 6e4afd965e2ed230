"""What is published about each Jetson: modules, clock tables, rails, thermal zones, presets, and each figure's source.

``catalog/*.yaml`` holds one board each. The board's own files win over it: the catalogue names a board, explains what
was read from it, and lets the fake kernel answer for boards that nobody has here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

from edgetune.artifacts.yaml_document import load_yaml
from edgetune.errors import InputError

Grade = Literal["A", "B", "C", "D"]
"""A: file by NVIDIA or kernel source. B: captured on a board, published by a third party, or written against one.
C: one secondary report. D: inferred, not verified."""


@dataclass(frozen=True, slots=True)
class ClockTable:
    """Frequencies that a release offers for a clock.

    Args:
        label: Which release or variant it was seen on.
        khz: Ascending, kHz; ``None`` where no list is published.
        ends_khz: Lowest and highest where only those are known, kHz.
        steps: Number of entries where only that is known.
        grade: How far to trust it.
        source: Where it comes from.
    """

    label: str
    khz: tuple[int, ...] | None
    ends_khz: tuple[int | None, int | None]
    steps: int | None
    grade: Grade
    source: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """Cores that share a clock: NVIDIA's name for it, its cores, and its cpufreq policy, e.g. ``policy4``."""

    name: str
    cpus: tuple[int, ...]
    policy: str


@dataclass(frozen=True, slots=True)
class Rail:
    """A channel (from 1) of a power sensor; ``name`` is ``None`` where nothing is connected.

    ``in_chip_sum`` is false where the device tree keeps the channel out of the chip's own sum.
    """

    channel: int
    name: str | None
    in_chip_sum: bool


@dataclass(frozen=True, slots=True)
class PowerChip:
    """A power sensor: ``ina3221`` or ``ina238``, and its place on the I2C bus, e.g. ``1-0040``."""

    chip: str
    address: str
    rails: tuple[Rail, ...]


@dataclass(frozen=True, slots=True)
class Rails:
    """The board's power sensors.

    Args:
        chips: The sensors.
        total: The rail through which all of the module's power comes; ``None`` where there is no such rail.
        total_sum: Rails to add up where there is none.
        sum_note: What is uncertain about that sum.
        sum_grade: How far to trust it.
        grade: How far to trust the rails.
        source: Where they come from.
    """

    chips: tuple[PowerChip, ...]
    total: str | None
    total_sum: tuple[str, ...]
    sum_note: str
    sum_grade: Grade | None
    grade: Grade
    source: str


@dataclass(frozen=True, slots=True)
class ThermalZones:
    """Thermal zones as some kernels name them.

    Args:
        kernels: Those kernels.
        zones: Their names, in the order of their numbers where that is known.
        gated: Zones that answer EAGAIN while their block is off.
        critical_mc: Trip point at which the board switches off, thousandths of a degree; ``None`` where not published.
        grade: How far to trust it.
        source: Where it comes from.
    """

    kernels: tuple[str, ...]
    zones: tuple[str, ...]
    gated: tuple[str, ...]
    critical_mc: int | None
    grade: Grade
    source: str


@dataclass(frozen=True, slots=True)
class Preset:
    """An nvpmodel mode: what it allows. ``None`` as a limit means that it sets none.

    Args:
        id: As in ``nvpmodel -m``.
        name: E.g. ``MODE_30W``.
        cores: Cores online.
        cpu_khz: Lowest and highest clock by cluster name, kHz.
        gpu_khz: Lowest and highest GPU clock, kHz.
        emc_max_khz: Highest memory clock, kHz.
        masks: ``tpc_pg_mask``, ``fbp_pg_mask``, ``gpu_pg_mask``, as numbers.
        vdd_in_limits_ma: ``warn`` and ``crit`` current limits of the input rail, mA; most presets set none.
        grade: How far to trust it.
    """

    id: int
    name: str
    cores: tuple[int, ...]
    cpu_khz: Mapping[str, tuple[int | None, int | None]]
    gpu_khz: tuple[int | None, int | None]
    emc_max_khz: int | None
    masks: Mapping[str, int]
    vdd_in_limits_ma: Mapping[str, int]
    grade: Grade


@dataclass(frozen=True, slots=True)
class PresetFile:
    """The modes of one nvpmodel configuration file; ``needs_super`` where only a ``-super`` device tree selects it."""

    conf_file: str
    needs_super: bool
    default_id: int
    modes: tuple[Preset, ...]
    grade: Grade
    source: str


@dataclass(frozen=True, slots=True)
class CatalogueBoard:
    """One Jetson module as published.

    Args:
        name: Its name here, e.g. ``jetson-agx-orin-64gb``.
        marketing: Its name elsewhere.
        soc: E.g. ``tegra234``.
        module_ids: E.g. ``p3701-0005``.
        models: Device-tree models.
        models_grade: Whether they were seen (B) or are guessed (D).
        jetpack: JetPack releases that run on it.
        kernels: Kernel versions that those releases bring, oldest first.
        clusters: Of the CPU.
        clusters_grade: How far to trust them.
        idle_states: Names of cpuidle states.
        cpu: Clock tables of the CPU.
        gpu_name: E.g. ``ga10b``.
        gpu_devfreq: Where its devfreq folder was seen.
        gpu: Clock tables of the GPU; on Thor one for each domain.
        emc_interface: ``t210`` or ``bpmp``.
        emc: Clock tables of the memory.
        rails: Power sensors.
        thermal: Thermal zones by kernel.
        presets: nvpmodel configuration files.
        notes: What else was published.
    """

    name: str
    marketing: str
    soc: str
    module_ids: tuple[str, ...]
    models: tuple[str, ...]
    models_grade: Grade
    jetpack: str
    kernels: tuple[str, ...]
    clusters: tuple[Cluster, ...]
    clusters_grade: Grade
    idle_states: tuple[str, ...]
    cpu: tuple[ClockTable, ...]
    gpu_name: str
    gpu_devfreq: tuple[str, ...]
    gpu: tuple[ClockTable, ...]
    emc_interface: str
    emc: tuple[ClockTable, ...]
    rails: Rails
    thermal: tuple[ThermalZones, ...]
    presets: tuple[PresetFile, ...]
    notes: tuple[str, ...]

    @property
    def cpus(self) -> tuple[int, ...]:
        """All cores, ascending."""
        return tuple(sorted(cpu for cluster in self.clusters for cpu in cluster.cpus))


def board_names() -> list[str]:
    """Return the boards in the catalogue, by name."""
    folder = resources.files("edgetune.devices") / "catalog"
    return sorted(entry.name[: -len(".yaml")] for entry in folder.iterdir() if entry.name.endswith(".yaml"))


@cache
def load_board(name: str) -> CatalogueBoard:
    """Return what is published about a board.

    Raises:
        InputError: the catalogue does not have it.
    """
    if name not in board_names():
        raise InputError(f"the catalogue has no board {name!r}", f"it has {', '.join(board_names())}")
    text = (resources.files("edgetune.devices") / "catalog" / f"{name}.yaml").read_text()
    return _board(load_yaml(text, name=f"{name}.yaml"))


def board_of_module(module_id: str) -> CatalogueBoard | None:
    """Return the board with a module, e.g. ``p3767-0003``; ``None`` when the catalogue does not have it."""
    for name in board_names():
        board = load_board(name)
        if module_id in board.module_ids:
            return board
    return None


def _board(document: Mapping[str, Any]) -> CatalogueBoard:
    cpu, gpu, emc = document["cpu"], document["gpu"], document["emc"]
    return CatalogueBoard(
        name=document["name"],
        marketing=document["marketing"],
        soc=document["soc"],
        module_ids=tuple(document["module_ids"]),
        models=tuple(document["models"]),
        models_grade=document["models_grade"],
        jetpack=document["jetpack"],
        kernels=tuple(document["kernels"]),
        clusters=tuple(Cluster(row["name"], tuple(row["cpus"]), row["policy"]) for row in cpu["clusters"]),
        clusters_grade=cpu["clusters_grade"],
        idle_states=tuple(cpu["idle_states"]),
        cpu=_tables(cpu),
        gpu_name=gpu["name"],
        gpu_devfreq=tuple(gpu["devfreq"]),
        gpu=_tables(gpu),
        emc_interface=emc["interface"],
        emc=_tables(emc),
        rails=_rails(document["power"]),
        thermal=tuple(
            ThermalZones(
                kernels=tuple(row["kernels"]),
                zones=tuple(row["zones"]),
                gated=tuple(row.get("gated", ())),
                critical_mc=row.get("critical_mc"),
                grade=row["grade"],
                source=row["source"],
            )
            for row in document["thermal"]
        ),
        presets=tuple(_presets(row) for row in document["presets"]),
        notes=tuple(document.get("notes", ())),
    )


def _tables(clock: Mapping[str, Any]) -> tuple[ClockTable, ...]:
    return tuple(
        ClockTable(
            label=row["label"],
            khz=None if row["khz"] is None else tuple(row["khz"]),
            ends_khz=_ends(row),
            steps=row.get("steps", None if row["khz"] is None else len(row["khz"])),
            grade=row["grade"],
            source=row["source"],
        )
        for row in clock["tables"]
    )


def _ends(table: Mapping[str, Any]) -> tuple[int | None, int | None]:
    if table["khz"] is not None:
        return table["khz"][0], table["khz"][-1]
    low, high = table.get("ends_khz", (None, None))
    return low, high


def _rails(power: Mapping[str, Any]) -> Rails:
    return Rails(
        chips=tuple(
            PowerChip(
                row["chip"],
                row["address"],
                tuple(Rail(rail["channel"], rail["name"], rail.get("in_chip_sum", True)) for rail in row["rails"]),
            )
            for row in power["chips"]
        ),
        total=power["total"],
        total_sum=tuple(power.get("sum", ())),
        sum_note=power.get("sum_note", ""),
        sum_grade=power.get("sum_grade"),
        grade=power["grade"],
        source=power["source"],
    )


def _presets(row: Mapping[str, Any]) -> PresetFile:
    modes = tuple(
        Preset(
            id=mode["id"],
            name=mode["name"],
            cores=tuple(mode["cores"]),
            cpu_khz={cluster: (low, high) for cluster, (low, high) in mode["cpu_khz"].items()},
            gpu_khz=(mode["gpu_khz"][0], mode["gpu_khz"][1]),
            emc_max_khz=mode["emc_max_khz"],
            masks=mode["masks"],
            vdd_in_limits_ma=mode.get("vdd_in_limits_ma", {}),
            grade=mode.get("grade", row["grade"]),
        )
        for mode in row["modes"]
    )
    return PresetFile(row["conf_file"], row["needs_super"], row["default_id"], modes, row["grade"], row["source"])
