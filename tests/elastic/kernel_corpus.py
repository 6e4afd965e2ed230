"""The kernels that elastic forms are tried on, each with its launches in its own comments."""

from pathlib import Path

from edgetune.stages.elastic.cpu_equivalence import Matrix
from edgetune.stages.elastic.sample_launches import FORWARD, REVERSE, SampleLaunch, chance, sample_launches_in

FOLDER = Path(__file__).with_name("kernels")
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.cu")))
BRIEF = Matrix(schedules=(FORWARD, REVERSE, chance(1)), cuts=1)
ARCHES = ("sm_75", "sm_87", "sm_90", "sm_110")
"""Turing, Jetson Orin, Hopper, Jetson Thor."""


def source(name: str) -> str:
    return (FOLDER / f"{name}.cu").read_text()


def trials(name: str) -> tuple[SampleLaunch, ...]:
    return sample_launches_in(source(name), f"{name}.cu")
