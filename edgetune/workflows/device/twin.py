"""Compares a twin with published figures, and fits its constants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetune.artifacts.files import write_atomically
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import Task
from edgetune.devices.twin import calibration
from edgetune.devices.twin.calibration import CheckRow
from edgetune.devices.twin.constants import CalibrationInfo, LeftOut, dump
from edgetune.devices.twin.device import load_twin
from edgetune.errors import InputError
from edgetune.workflows.output import Target
from edgetune.workloads.costs import operator_table
from edgetune.workloads.resolve import resolve


def tables(network: str, task: Task, batch_size: int) -> OpsTable:
    """Return the operator table of a network of the zoo, the input of a twin's model."""
    return operator_table(resolve(f"zoo:{network}"), task, batch_size)


@dataclass(frozen=True, slots=True)
class TwinCheck:
    """The comparison of a twin with published figures.

    Args:
        figures: Every published figure with the twin's.
        left_out: Errors, per network, of a twin calibrated without that network.
        fit: The fit of the constants, and the claims for them.
    """

    figures: Sequence[CheckRow]
    left_out: Sequence[LeftOut]
    fit: CalibrationInfo


def check(name: str, *, leave_one_out: bool) -> TwinCheck:
    """Compare a twin with every published figure; ``leave_one_out`` calibrates without each network in turn (minutes).

    Raises:
        InputError: the device is not a twin.
    """
    _require_twin(name)
    twin, _ = load_twin(name)
    left_out = calibration.leave_one_out(twin, tables) if leave_one_out else twin.fit.leave_one_out
    return TwinCheck(calibration.check(twin, tables), left_out, twin.fit)


def calibrate(name: str, output: str) -> Path:
    """Fit the twin's constants to this version's operator tables, write them and return the file (minutes).

    Raises:
        InputError: the device is not a twin, or the file cannot be written.
    """
    _require_twin(name)
    Target(Path(output)).check("set of constants", "--calibrate")
    return write_atomically(dump(calibration.calibrate(load_twin(name)[0], tables)).encode(), output)


def _require_twin(name: str) -> None:
    if not name.startswith("twin:"):
        raise InputError(f"{name} is not a twin", "e.g. edgetune device twin:orin-agx --check")
