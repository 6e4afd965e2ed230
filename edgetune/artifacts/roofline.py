"""The roofline of a device: peaks of computing and memory, and energy constants, per power mode and precision.

    time      T = max(W / flops_per_s, Q / bytes_per_s)           W in FLOP, Q in bytes
    energy    E = flop_j W + byte_j Q + static_w T

Source: Choi, Bedard, Fowler and Vuduc, "A roofline model of energy" (IPDPS 2013); per power mode as in Pagoda (2025).

In the YAML document roofs come first, one block each. The measured kernels follow as a table, one line per kernel under
its mode, because a new fit of the roofs needs all of these, possibly thousands.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar

from edgetune.artifacts.artifact import Raw
from edgetune.artifacts.columns import NonNegativeFloat, NonNegativeInt, PositiveFloat
from edgetune.artifacts.document import STRICT, Document, head_of, validated
from edgetune.artifacts.header import Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.yaml_document import BlockMapping, plain
from edgetune.choices import nearest
from edgetune.errors import InputError

KIND = "roofline"
VERSION = 1


@dataclass(frozen=True, slots=True)
class KernelRun:
    """The raw measurement of one kernel at one size in one mode, from which a roofline can be fitted again.

    Args:
        kernel: ``matmul``, ``relu``, ``transpose``, ... or ``idle``.
        size: Rows of its square operands; 0 for ``idle``.
        precision: Its arithmetic, e.g. ``fp32``, ``tf32``, ``fp16``.
        mode: The power mode.
        flops: Floating-point operations of one run.
        bytes_moved: Bytes read and written by one run, each operand once.
        seconds: Median time of one run, s; the length of an idle run.
        power_w: Mean power over repeated runs, W; ``None`` without a sensor.
    """

    kernel: str
    size: NonNegativeInt
    precision: str
    mode: Mode
    flops: NonNegativeFloat
    bytes_moved: NonNegativeFloat
    seconds: PositiveFloat
    power_w: PositiveFloat | None = None


@dataclass(frozen=True, slots=True)
class Roof:
    """The peaks of one precision in one mode; energy is ``None`` without measured power.

    Args:
        mode: The power mode.
        precision: See ``KernelRun``.
        flops_per_s: Peak rate of computing, FLOP/s.
        bytes_per_s: Peak memory bandwidth, bytes/s.
        static_w: Static power, W.
        flop_j: Marginal energy of one FLOP, J.
        byte_j: Marginal energy of one byte, J.
        flop_j_error, byte_j_error: Half their 95 % confidence interval, J; ``None`` with too few kernels.
        residual_share: Root mean square of the fit's relative error in power; ``None`` without degrees of freedom.
        measured: Whether kernels ran in this mode; else it is inferred from other modes as a function of clocks.
    """

    mode: Mode
    precision: str
    flops_per_s: PositiveFloat
    bytes_per_s: PositiveFloat
    static_w: NonNegativeFloat | None = None
    flop_j: NonNegativeFloat | None = None
    byte_j: NonNegativeFloat | None = None
    flop_j_error: NonNegativeFloat | None = None
    byte_j_error: NonNegativeFloat | None = None
    residual_share: NonNegativeFloat | None = None
    measured: bool = True


@dataclass(frozen=True, slots=True)
class Roofline(Document):
    """The rooflines of a device.

    Args:
        header: Provenance; its conditions name the device.
        device: The device, as its profiles name it.
        roofs: One roof per mode and precision.
        runs: The measurements.
    """

    header: Header
    device: str
    roofs: tuple[Roof, ...]
    runs: tuple[KernelRun, ...] = ()

    EXAMPLE = "see a file that `edgetune roofline` writes"

    @classmethod
    def read(cls, raw: Raw, *, name: str) -> Roofline:
        """Return the validated rooflines.

        Raises:
            InputError: an unknown key, a missing one, a value of the wrong type, an impossible number, no roof, two
                roofs of one mode and precision, an energy constant without the others.
        """
        body = {**raw.body, "runs": _run_documents(raw.body.get("runs"), name=name)}
        roofline = super(Roofline, cls).read(Raw(raw.head, body), name=name)
        _check_roofs(roofline.roofs, name=name)
        return roofline

    def document(self) -> dict[str, Any]:
        """Return the head, the device, its roofs, and the measurements as a table."""
        roofs = [BlockMapping({**_figures(plain(roof)), "mode": _mode(roof.mode)}) for roof in self.roofs]
        document = BlockMapping({**head_of(self.header), "device": self.device, "roofs": roofs})
        if self.runs:
            modes = [
                BlockMapping({"mode": _mode(mode), "rows": [_row(run) for run in runs]})
                for mode, runs in groupby(self.runs, key=lambda run: run.mode)
            ]
            document["runs"] = BlockMapping({"columns": list(_COLUMNS), "modes": modes})
        return document

    def to_arrow(self) -> Any:
        """Return the roofs as a ``pyarrow.Table``, the knobs of their modes as columns."""
        import pyarrow as pa

        return pa.Table.from_pylist([plain(roof.mode) | {**plain(roof), "mode": str(roof.mode)} for roof in self.roofs])


_COLUMNS = tuple(field.name for field in dataclasses.fields(KernelRun) if field.name != "mode")
_ENERGY = ("static_w", "flop_j", "byte_j")
_EXACT = 2.0**53
"""Above it not every whole number is a float of its own."""


@dataclass(frozen=True, slots=True)
class _ModeRuns:
    mode: Mode
    rows: tuple[tuple[str | int | float | None, ...], ...]


@dataclass(frozen=True, slots=True)
class _Runs:
    columns: tuple[str, ...]
    modes: tuple[_ModeRuns, ...]


def _mode(mode: Mode) -> dict[str, Any]:
    return {knob: _number(value) for knob, value in plain(mode.knobs()).items()}


def _figures(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _number(value) for key, value in figures.items() if value is not None}


def _row(run: KernelRun) -> list[Any]:
    return [_number(plain(getattr(run, column))) for column in _COLUMNS]


def _number(value: Any) -> Any:
    """Return a whole number as an integer, without ``.0``."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT else value


def _run_documents(section: Any, *, name: str) -> list[dict[str, Any]]:
    """Return the table of measurements as one mapping per kernel."""
    if section is None:
        return []
    runs = validated({"runs": section}, _Section, name=name, example=Roofline.EXAMPLE).runs
    for column in runs.columns:
        if column not in _COLUMNS:
            hint = nearest(column, _COLUMNS, listed=f"known here: {', '.join(_COLUMNS)}")
            raise InputError(f"{name}: unknown key 'runs.columns.{column}'", hint)
    documents = []
    for mode, row in ((group.mode, row) for group in runs.modes for row in group.rows):
        if len(row) != len(runs.columns):
            message = f"{name}: a row of runs has {len(row)} values for {len(runs.columns)} columns: {list(row)}"
            raise InputError(message, f"the columns are {', '.join(runs.columns)}; write null where there is no value")
        documents.append({**dict(zip(runs.columns, row, strict=True)), "mode": _figures(plain(mode))})
    return documents


@dataclass(frozen=True, slots=True)
class _Section:
    """The table under its key, so that messages name it."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = STRICT

    runs: _Runs


def _check_roofs(roofs: Sequence[Roof], *, name: str) -> None:
    if not roofs:
        raise InputError(f"{name} has no roofs", Roofline.EXAMPLE)
    (mode, precision), count = Counter((roof.mode, roof.precision) for roof in roofs).most_common(1)[0]
    if count > 1:
        raise InputError(f"{name}: {count} roofs of {precision} at {mode}", "leave one: which of them holds is unclear")
    for roof in roofs:
        missing = [key for key in _ENERGY if getattr(roof, key) is None]
        if 0 < len(missing) < len(_ENERGY):
            message = f"{name}: the roof of {roof.precision} at {roof.mode} has no {' and no '.join(missing)}"
            raise InputError(message, f"give {', '.join(_ENERGY)} together, or none of them")
