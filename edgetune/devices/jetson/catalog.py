"""Published data of each Jetson: modules, clock tables, rails, thermal zones, presets, each with its source.

Each ``catalog/*.yaml`` describes one board; what is read here is what edgetune uses. Every figure there has its
``source`` and a ``grade`` of its reliability. A: file by NVIDIA or kernel source. B: captured on a board, published by
a third party, or written against one. C: one secondary report. D: inferred, not verified. Values read from the board
take precedence: the catalogue names the board, and supplies the fake kernel with data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Annotated, Any

from pydantic import AliasPath, Field, TypeAdapter

from edgetune.artifacts.yaml_document import load_yaml
from edgetune.errors import InputError


@dataclass(frozen=True, slots=True)
class ClockTable:
    """Frequencies that one software release offers for a clock.

    Args:
        khz: Ascending, kHz; ``None`` where no list is published.
        ends_khz: Lowest and highest where only those are known, kHz.
        steps: Number of entries where only the number is known.
    """

    khz: tuple[int, ...] | None
    ends_khz: tuple[int | None, int | None] = (None, None)
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.khz is not None:
            object.__setattr__(self, "ends_khz", (self.khz[0], self.khz[-1]))
            object.__setattr__(self, "steps", len(self.khz))


@dataclass(frozen=True, slots=True)
class Cluster:
    """Cores that share a clock: NVIDIA's name for it, its cores, and its cpufreq policy, e.g. ``policy4``."""

    name: str
    cpus: tuple[int, ...]
    policy: str


@dataclass(frozen=True, slots=True)
class Rail:
    """A channel (from 1) of a power sensor; ``name`` is ``None`` where nothing is connected."""

    channel: int
    name: str | None


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
        total: The input rail that carries all of the module's power; ``None`` where there is no such rail.
        total_sum: Rails to add up where there is no input rail.
    """

    chips: tuple[PowerChip, ...]
    total: str | None
    total_sum: Annotated[tuple[str, ...], Field(validation_alias="sum")] = ()


@dataclass(frozen=True, slots=True)
class ThermalZones:
    """Thermal zones under the names that a group of kernels uses.

    Args:
        kernels: Kernel versions.
        zones: Zone names, in the order of the zone numbers where known.
        gated: Zones that answer EAGAIN while their block is off.
    """

    kernels: tuple[str, ...]
    zones: tuple[str, ...]
    gated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Preset:
    """The limits of an nvpmodel mode; ``None`` means that the mode sets no limit.

    Args:
        id: As in ``nvpmodel -m``.
        name: E.g. ``MODE_30W``.
        cores: Cores online.
        cpu_khz: Lowest and highest clock by cluster name, kHz.
        gpu_khz: Lowest and highest GPU clock, kHz.
        emc_max_khz: Highest memory clock, kHz.
        masks: ``tpc_pg_mask``, ``fbp_pg_mask``, ``gpu_pg_mask``, as numbers.
        vdd_in_limits_ma: ``warn`` and ``crit`` current limits of the input rail, mA; most presets set none.
    """

    id: int
    name: str
    cores: tuple[int, ...]
    cpu_khz: Mapping[str, tuple[int | None, int | None]]
    gpu_khz: tuple[int | None, int | None]
    emc_max_khz: int | None
    masks: Mapping[str, int]
    vdd_in_limits_ma: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PresetFile:
    """The modes of one nvpmodel configuration file; ``needs_super`` where only a ``-super`` device tree selects it."""

    conf_file: str
    needs_super: bool
    default_id: int
    modes: tuple[Preset, ...]


def _at(*path: str) -> Any:
    """Return the path of a board's field inside its YAML document."""
    return Field(validation_alias=AliasPath(*path))


@dataclass(frozen=True, slots=True)
class CatalogueBoard:
    """One Jetson module, from published data.

    Args:
        name: Its name here, e.g. ``jetson-agx-orin-64gb``.
        marketing: Its name elsewhere.
        soc: E.g. ``tegra234``.
        module_ids: E.g. ``p3701-0005``.
        models: Device-tree models.
        kernels: Kernel versions of those releases, oldest first.
        clusters: CPU clusters.
        cpu: Clock tables of the CPU.
        gpu_name: E.g. ``ga10b``.
        gpu: Clock tables of the GPU; on Thor one for each domain.
        emc_interface: ``t210`` or ``bpmp``.
        emc: Clock tables of the memory.
        rails: Power sensors.
        thermal: Thermal zones by kernel.
        presets: nvpmodel configuration files.
    """

    name: str
    marketing: str
    soc: str
    module_ids: tuple[str, ...]
    models: tuple[str, ...]
    kernels: tuple[str, ...]
    clusters: Annotated[tuple[Cluster, ...], _at("cpu", "clusters")]
    cpu: Annotated[tuple[ClockTable, ...], _at("cpu", "tables")]
    gpu_name: Annotated[str, _at("gpu", "name")]
    gpu: Annotated[tuple[ClockTable, ...], _at("gpu", "tables")]
    emc_interface: Annotated[str, _at("emc", "interface")]
    emc: Annotated[tuple[ClockTable, ...], _at("emc", "tables")]
    rails: Annotated[Rails, _at("power")]
    thermal: tuple[ThermalZones, ...]
    presets: tuple[PresetFile, ...]

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
    """Return the catalogue entry of a board.

    Raises:
        InputError: the catalogue has no board of this name.
    """
    if name not in board_names():
        raise InputError(f"the catalogue has no board {name!r}", f"it has {', '.join(board_names())}")
    text = (resources.files("edgetune.devices") / "catalog" / f"{name}.yaml").read_text(encoding="utf-8")
    return TypeAdapter(CatalogueBoard).validate_python(load_yaml(text, name=f"{name}.yaml"))


def board_of_module(module_id: str) -> CatalogueBoard | None:
    """Return the catalogue entry of a module, e.g. ``p3767-0003``; ``None`` when there is none."""
    return next((board for board in map(load_board, board_names()) if module_id in board.module_ids), None)
