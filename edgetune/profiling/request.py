"""What a user asks to be profiled: one workload and task, at some batch sizes, in some modes."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, Task
from edgetune.profiling.options import ProfileOptions
from edgetune.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """A sweep as asked for.

    Args:
        workload: What to run.
        task: ``infer`` or ``train``.
        batch_sizes: Samples per minibatch, each in every mode.
        modes: Power modes.
        device_name: As the user named the device.
        options: How to measure.
    """

    workload: Workload
    task: Task
    batch_sizes: tuple[int, ...]
    modes: tuple[Mode, ...]
    device_name: str
    options: ProfileOptions = field(default_factory=ProfileOptions)

    @property
    def points(self) -> tuple[Point, ...]:
        """Every point once, the modes of the first batch size first: the order in which rows are delivered."""
        asked = (Point(self.workload.name, self.task, size, mode) for size in self.batch_sizes for mode in self.modes)
        return tuple(dict.fromkeys(asked))
