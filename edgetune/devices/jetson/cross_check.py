"""The board beside the catalogue: what it offers wins, and where nobody has published that, it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgetune.devices.jetson.catalog import CatalogueBoard, ClockTable, board_of_module
from edgetune.devices.jetson.detect import Jetson

_KHZ_PER_MHZ = 1000


def differences(jetson: Jetson, tables: Mapping[str, tuple[float, ...]]) -> list[str]:
    """Return one sentence for each thing that is not as published of this module; none when the catalogue lacks it.

    Args:
        jetson: The board, as detected.
        tables: Its own values of each knob, MHz for clocks.
    """
    published = board_of_module(jetson.module) if jetson.module else None
    if published is None:
        return []
    found = [_clocks(published, what, name, tables.get(knob, ())) for what, name, knob in (
        ("CPU", "cpu", "cpu_mhz"), ("GPU", "gpu", "gpu_mhz"), ("memory", "emc", "mem_mhz"),
    )]  # fmt: skip
    cores = tables.get("cpu_cores", ())
    if cores and len(cores) != len(published.cpus):
        found.append(f"{published.name} has {len(published.cpus)} cores as published, this board has {len(cores)}")
    return [sentence for sentence in found if sentence]


def _clocks(board: CatalogueBoard, what: str, name: str, offered: Sequence[float]) -> str:
    """Say that no published table of a clock is the one on offer; empty when one is, or nothing is known."""
    published: tuple[ClockTable, ...] = getattr(board, name)
    lists = [table.khz for table in published if table.khz]
    khz = tuple(round(mhz * _KHZ_PER_MHZ) for mhz in offered)
    if not lists or not khz or khz in lists or khz in [(each[0], each[-1]) for each in lists]:
        return ""  # of the Nano's memory clocks the kernel tells only the ends
    nearest = min(lists, key=lambda each: len(set(each) ^ set(khz)))
    strange = len(set(khz) - set(nearest))
    return (
        f"the {what} clocks are in no table published for {board.name}: there are {len(khz)}, {strange} of them not "
        f"among the {len(nearest)} of the nearest table; the board's own are used"
    )
