"""The roofline of a device in a report: peaks and energy of every mode and precision, and their figures."""

from __future__ import annotations

from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.roofline import Roof, Roofline
from edgetune.plotting.page import SectionWriter
from edgetune.stages.roofline.balance import sentences, statements
from edgetune.stages.roofline.figures import write_rooflines
from edgetune.workflows.cells import cell, si_cell


def roofline_section(roofline: Roofline, out: SectionWriter) -> None:
    """Write the roofs of a device, below a line on the measurements; energy columns only if known."""
    roofs = roofline.roofs
    varying = [knob for knob in KNOBS if len({getattr(roof.mode, knob) for roof in roofs}) > 1]
    fixed = Mode.of({knob: value for knob, value in roofs[0].mode.knobs().items() if knob not in varying})
    modes = len({run.mode for run in roofline.runs})
    kernels = f"{len(roofline.runs)} kernels measured at {modes} mode{'' if modes == 1 else 's'}"
    out.note(", ".join([roofline.device, *([str(fixed)] if fixed.knobs() else []), kernels]))
    columns = [*(f"{knob}>" for knob in varying), "precision", "peak>", "memory>", "FLOP/byte>"]
    if with_energy := any(roof.flop_j is not None for roof in roofs):
        columns += ["static>", "pJ/FLOP>", "pJ/byte>", "residual>"]
    rows = [
        [
            *(cell(getattr(roof.mode, knob), "g") for knob in varying),
            *(roof.precision, si_cell(roof.flops_per_s, "FLOP/s"), si_cell(roof.bytes_per_s, "B/s")),
            f"{roof.flops_per_s / roof.bytes_per_s:.4g}",
            *(_energy_cells(roof) if with_energy else ()),
            "measured" if roof.measured else "inferred",
        ]
        for roof in roofs
    ]
    out.table([*columns, "from"], rows, keys=range(len(rows)))
    write_rooflines(
        out, roofs, device=roofline.device, simulated=roofline.header.simulated, notes=_statements(roofline)
    )


def _energy_cells(roof: Roof) -> tuple[str | None, ...]:
    def picojoules(value_j: float | None, error_j: float | None) -> str | None:
        within = "" if error_j is None else f" +-{1e12 * error_j:.2g}"
        return None if value_j is None else f"{1e12 * value_j:.4g}{within}"

    residual = cell(roof.residual_share, ".1%")
    constants = picojoules(roof.flop_j, roof.flop_j_error), picojoules(roof.byte_j, roof.byte_j_error)
    return si_cell(roof.static_w, "W"), *constants, residual


def _statements(roofline: Roofline) -> list[str]:
    """Return what holds in all measured modes, for each precision."""
    precisions = dict.fromkeys(roof.precision for roof in roofline.roofs)
    found = (statements([roof for roof in roofline.roofs if roof.precision == each]) for each in precisions)
    return [f"{each.precision}: {sentence}" for each in found if each is not None for sentence in sentences(each)]
