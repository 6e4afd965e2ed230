"""The distance of a twin from every published figure."""

from __future__ import annotations

from dataclasses import dataclass

from edgetune.devices.twin.anchors import AnchorEvaluator, Figure, Tables, load_anchors
from edgetune.devices.twin.constants import TwinFile
from edgetune.errors import InputError


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One published figure beside the twin's.

    Args:
        name: What it is.
        published, twin: The two values, in ``unit``.
        unit: ``ratio`` for figures relative to another mode.
        deviation_pct: The twin's distance, % of the published value; for ratios hundredths of the ratio.
        tolerance_pct: What is promised, in the same measure; ``None``: compared only.
        within: Whether the promise holds; ``None`` without one.
        note: Role of the figure in the calibration and what makes it doubtful.
        source: Where it is printed.
    """

    name: str
    published: float
    twin: float
    unit: str
    deviation_pct: float
    tolerance_pct: float | None
    within: bool | None
    note: str
    source: str


def check(tables: Tables, name: str = "twin:orin-agx") -> list[CheckRow]:
    """Return every published figure of the board beside the twin's, in the order of the file.

    Args:
        tables: Gives FP32 operator tables by network, task and batch size.
        name: A twin, as for ``open_twin``.

    Raises:
        InputError: no such twin, or no published figures for its board.
    """
    from edgetune.devices.twin.device import load_twin

    return check_file(load_twin(name)[0], tables)


def check_file(twin: TwinFile, tables: Tables) -> list[CheckRow]:
    """Return the rows of ``check`` for constants in hand."""
    anchors, _ = load_anchors()
    if anchors.board != twin.board:
        raise InputError(f"there are no published figures for {twin.board!r}", f"only for {anchors.board}")
    values = AnchorEvaluator(anchors.figures, tables, tf32_matmul=twin.tf32_matmul).values(twin.values)
    pairs = zip(anchors.figures, values, strict=True)
    return [_row(figure, float(value), anchors.tolerances[figure.group]) for figure, value in pairs]


def deviation(figure: Figure, twin: float) -> float:
    """Return the twin's distance from a figure: % of it, or hundredths for a ratio."""
    scale = 1.0 if figure.unit == "ratio" else figure.published
    return 100 * (twin - figure.published) / scale


def _row(figure: Figure, twin: float, tolerance_pct: float | None) -> CheckRow:
    deviation_pct = deviation(figure, twin)
    role = {"fitted": "", "target": "a sentence read as a number", "construction": "met by construction"}
    parts = [role.get(figure.use, "not fitted"), figure.note]
    return CheckRow(
        name=f"{figure.name}: {figure.unit}" if figure.network and figure.unit != "ratio" else figure.name,
        published=figure.published,
        twin=twin,
        unit=figure.unit,
        deviation_pct=deviation_pct,
        tolerance_pct=tolerance_pct,
        within=None if tolerance_pct is None else abs(deviation_pct) <= tolerance_pct,
        note="; ".join(part for part in parts if part),
        source=figure.source,
    )
