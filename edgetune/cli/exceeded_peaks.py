"""Peaks that a network beats: they are too low, so they are measured again, and what stays above its roof is told.

A network faster than its roof is a defect of the peaks (others used the machine while they were measured), unless its
data stay in caches or its layers are fused, which the count of bytes does not know. Peaks measured twice that agree
leave only the latter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgetune.artifacts.roofline import KernelRun, Roof, Roofline
    from edgetune.cli.roofline_request import Placed
    from edgetune.cli.screen import Screen
    from edgetune.devices.device import Device
    from edgetune.workloads.kernels import BenchmarkKernel

TIMES = 2
"""Times that the peaks which a network beats are measured again."""
BEATEN = "peaks-beaten"


def without_beaten(device: Device, found: Sequence[Placed], *, quick: bool, screen: Screen) -> list[Placed]:
    """Return the placements beneath peaks measured again, in the modes and precisions where a network beats them.

    Where one still does, the roofline says so in a warning.
    """
    from edgetune.artifacts.header import DataWarning
    from edgetune.roofline.placement import NOTABLY

    for _ in range(0 if device.simulated else TIMES):
        beaten = _beaten(found)
        if not beaten:
            return list(found)
        screen.info(
            f"the network is up to {_excess(found):.2g} times as fast as its roof allows: measuring peaks again"
        )
        roofline = _measured_again(device, found[0].roofline, beaten, quick=quick)
        found = [_beneath(placed, roofline) for placed in found]
    if (excess := _excess(found)) <= NOTABLY:
        return list(found)
    advice = (
        f"{found[0].placements[0].workload} is faster than its roof, also with peaks measured again: its data stay in "
        "caches, its layers are fused, or the machine is busy; do not read its distance to the roof"
    )
    known = found[0].roofline
    numbers = {"times_the_roof": excess, "measured_again": float(TIMES)}
    header = replace(known.header, warnings=(*known.header.warnings, DataWarning(BEATEN, advice, numbers)))
    return [_beneath(placed, replace(known, header=header)) for placed in found]


def _beaten(found: Sequence[Placed]) -> list[Roof]:
    """Return the measured roofs that a network beats: in a mode, those of all precisions that it computes in."""
    from edgetune.cli.peaks import roofs_beside
    from edgetune.roofline.placement import NOTABLY

    roofs = []
    for each in (each for placed in found for each in placed.everywhere if _excess_of(each) > NOTABLY):
        used = {row.precision for placement in each.placements for row in placement.rows if row.flops}
        beside = [roof for roof in roofs_beside(each.roofline, each.roof) if roof.precision in used]
        roofs += [roof for roof in (each.roof, *beside) if roof.measured]
    return roofs


def _excess(found: Sequence[Placed]) -> float:
    return max((_excess_of(each) for placed in found for each in placed.everywhere), default=0.0)


def _excess_of(placed: Placed) -> float:
    """Return the least time of a network as a multiple of the measured one, the most over its batch sizes."""
    return max((each.layers_s / each.measured_s for each in placed.placements if each.measured_s), default=0.0)


def _measured_again(device: Device, roofline: Roofline, beaten: Sequence[Roof], *, quick: bool) -> Roofline:
    """Measure the best sizes of the beaten roofs' kernels again; of two runs of a kernel the faster counts."""
    from edgetune.cli.peaks import bench_on
    from edgetune.errors import EdgetuneError, NotRestoredError
    from edgetune.roofline.fit import fit_roofs
    from edgetune.roofline.measure import measure_peaks

    runs = {_key(run): run for run in roofline.runs}
    with bench_on(device) as bench:
        for roof in beaten:
            try:
                kernels = _best_kernels(device, roofline, roof, quick=quick)
                again = measure_peaks(bench.measure, lambda _: None, [roof.mode], kernels).runs
            except NotRestoredError:
                raise
            except EdgetuneError:  # the first measurement stands
                continue
            for run in again:
                runs[_key(run)] = min(runs.get(_key(run), run), run, key=lambda each: each.seconds)
    others = [each for each in roofline.header.warnings if each.code != "peaks-busy"]
    warnings = (*others, *(bench.data_warnings if len(others) < len(roofline.header.warnings) else ()))
    header = replace(roofline.header, warnings=warnings)
    return replace(roofline, header=header, roofs=fit_roofs(list(runs.values())).roofs, runs=tuple(runs.values()))


def _key(run: KernelRun) -> tuple[object, ...]:
    return run.kernel, run.size, run.precision, run.mode


def _best_kernels(device: Device, roofline: Roofline, roof: Roof, *, quick: bool) -> list[BenchmarkKernel]:
    """Return the kernels of a roof, of each family the size that was fastest for its work."""
    from edgetune.roofline.buffer_limits import buffer_limits_on
    from edgetune.roofline.kernel_plan import plan_kernels

    limits = buffer_limits_on(device)
    planned = plan_kernels(limits.memory_bytes, [roof.precision], cache_bytes=limits.cache_bytes, quick=quick)
    best: dict[str, KernelRun] = {}
    for run in roofline.runs:
        if (run.mode, run.precision) == (roof.mode, roof.precision):
            best[run.kernel] = max(best.get(run.kernel, run), run, key=_rate)
    return [each for each in planned if each.label in best and each.rows == best[each.label].size]


def _rate(run: KernelRun) -> float:
    return (run.flops or run.bytes_moved) / run.seconds


def _beneath(placed: Placed, roofline: Roofline) -> Placed:
    """Return the network beneath the same roofs of another roofline, as it was measured."""
    from edgetune.cli.peaks import roofs_beside
    from edgetune.roofline.placement import place

    same = (each for each in roofline.roofs if (each.mode, each.precision) == (placed.roof.mode, placed.roof.precision))
    roof = next(same, placed.roof)
    others = roofs_beside(roofline, roof)
    placements = [
        place(table, roof, others=others, measured_s=before.measured_s)
        for table, before in zip(placed.tables, placed.placements, strict=True)
    ]
    elsewhere = tuple(_beneath(each, roofline) for each in placed.elsewhere)
    return replace(placed, roofline=roofline, roof=roof, placements=tuple(placements), elsewhere=elsewhere)
