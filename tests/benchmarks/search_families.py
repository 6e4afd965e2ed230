"""Made-up boards whose power or time is unlike what a physical model expects: tables for ``search_tables.py``.

Every table has 13 CPU clocks x 11 GPU clocks x 8 memory clocks, and deviates from its formula: smoothly by 4 % of the
time and 2.5 % of the power, and by about 0.5 % at each point. Family and seed decide all of its figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from edgetune.artifacts.profile import ProfileRow
from edgetune.devices.twin.device import open_twin

Array = npt.NDArray[np.float64]
Figures = tuple[Array, Array]
"""Time of each mode, in tenths of a second, and its power, W."""

GRID = {"cpu_mhz": (102, 2035, 13), "gpu_mhz": (114, 1300, 11), "mem_mhz": (204, 1866, 8)}
"""Lowest clock, highest clock, number of clocks."""
USUAL_SHARES = np.array([0.6, 0.3, 0.3, 0.05])
"""Time at full clocks that needs the GPU, the memory and the CPU, and time that needs no clock."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of every mode as shares of the highest, and their places from 0 to 1, shape (modes, 3)."""

    cpu: Array
    gpu: Array
    mem: Array
    places: Array

    @classmethod
    def of(cls, cpu: Array, gpu: Array, mem: Array) -> Clocks:
        """Return the clocks of these modes, in any unit; a place is halfway between the linear and the logarithmic."""
        shares = [clock / clock.max() for clock in (cpu, gpu, mem)]
        places = [(np.log(x / x.min()) / np.log(1 / x.min()) + (x - x.min()) / (1 - x.min())) / 2 for x in shares]
        return cls(*shares, np.stack(places, axis=1))


@dataclass(frozen=True, slots=True)
class Program:
    """The shares of a program's time at full clocks, and the norm that joins them: 1 adds, a large one overlaps."""

    shares: Array
    norm: float

    @classmethod
    def drawn(cls, random: np.random.Generator) -> Program:
        """Return a program with random shares."""
        return cls(np.exp(random.normal(size=4) * 0.7) * USUAL_SHARES, math.exp(random.normal(math.log(3), 0.3)))

    def parts(self, clocks: Clocks) -> tuple[Array, Array, Array]:
        """Return the time that each of GPU, memory and CPU needs alone."""
        gpu, mem, cpu, _ = self.shares
        return gpu / clocks.gpu, mem / clocks.mem, cpu / clocks.cpu

    def time(self, clocks: Clocks) -> Array:
        """Return the time of each mode."""
        joined = sum(part**self.norm for part in self.parts(clocks)) + self.shares[3] ** self.norm
        return np.asarray(joined ** (1 / self.norm))

    def figures(self, clocks: Clocks) -> Figures:
        """Return time and power: a static part, and of every block clock x voltage squared, idle and busy."""
        time = self.time(clocks)
        gpu, mem, cpu = (np.minimum(1, part / time) for part in self.parts(clocks))
        gpu_w = _switching(clocks.gpu) * (0.5 + 4 * gpu)
        cpu_w = _switching(clocks.cpu) * (0.6 + 2 * cpu)
        return time, 2 + clocks.mem * (0.5 + 1.2 * mem) + gpu_w + cpu_w


def falls(clocks: Clocks, program: Program, random: np.random.Generator, seed: int) -> Figures:
    """Power falls by 18 to 40 % from the lowest to the highest value of one knob, and grows with the others.

    It stands for boards on which one faster block lets the others sleep, or whose regulators waste less when loaded.
    """
    knob = random.integers(3)
    name = ("cpu", "gpu", "mem")[knob]
    _, power_w = program.figures(replace(clocks, **{name: np.full_like(clocks.cpu, 0.5)}))
    return program.time(clocks), power_w * np.exp(-random.uniform(0.2, 0.5) * clocks.places[:, knob])


def steps(clocks: Clocks, program: Program, random: np.random.Generator, seed: int) -> Figures:
    """Power jumps at three values of one knob; with an odd seed, a jump may go down.

    It stands for rails with few voltages, and for firmware that switches blocks on.
    """
    time, power_w = program.figures(clocks)
    clock = (clocks.cpu, clocks.gpu, clocks.mem)[random.integers(3)]
    places = np.sort(random.uniform(0.15, 0.9, 3))
    jumps_w = random.uniform(0.05, 0.3, 3) * power_w.mean()
    if seed % 2:
        jumps_w = jumps_w * random.choice([1, 1, -0.4], 3)
    jumped_w = sum(jump_w * (clock > place) for jump_w, place in zip(jumps_w, places, strict=True))
    return time, np.maximum(0.7 * power_w + jumped_w, 0.8)


def cpu_bound(clocks: Clocks, program: Program, random: np.random.Generator, seed: int) -> Figures:
    """The CPU takes all the time, and the GPU clock changes nothing but the power that the idle GPU draws.

    It stands for data loading, and for small networks whose launches take longer than their kernels.
    """
    power_w = 2.2 + 0.3 * clocks.mem + 0.25 * clocks.gpu + 0.6 * _switching(clocks.cpu)
    return Program(np.array([0, 0.05, 1.0, 0.1]), program.norm).time(clocks), power_w


def dead_memory(clocks: Clocks, program: Program, random: np.random.Generator, seed: int) -> Figures:
    """The memory clock does not change the time: a program that stays in the caches, or a knob that does nothing."""
    shares = program.shares.copy()
    shares[1] = 0
    return Program(shares, program.norm).figures(clocks)


def one_core(clocks: Clocks, program: Program, random: np.random.Generator, seed: int) -> Figures:
    """One CPU core takes all the time, and a higher CPU clock draws more or less power, in jumps of a random walk.

    It stands for a measured board on which two steps more of the CPU clock drew 0.3 to 0.4 W less of 3 W, so that the
    optimum of a low budget has a high CPU clock.
    """
    levels = np.unique(clocks.cpu, return_inverse=True)[1]
    jumps_w = np.cumsum(random.normal(-0.03, 0.12, levels.max() + 1))[levels]
    power_w = 2.6 + 0.5 * clocks.mem + 0.9 * clocks.gpu**1.5 + 0.35 * clocks.cpu + jumps_w
    return Program(np.array([0.02, 0.05, 1.0, 0.05]), 2.0).time(clocks), np.maximum(power_w, 1.5)


FAMILIES: dict[str, Callable[[Clocks, Program, np.random.Generator, int], Figures]] = {
    "falls": falls,
    "steps": steps,
    "cpu-bound": cpu_bound,
    "dead-memory": dead_memory,
    "one-core": one_core,
}


def family_table(family: str, seed: int) -> list[ProfileRow]:
    """Return a table of a family."""
    random = np.random.default_rng([seed, sum(map(ord, family))])
    knobs = {name: np.linspace(*spread).round() for name, spread in GRID.items()}
    modes = _modes(knobs)
    clocks = Clocks.of(*modes.values())
    time, power_w = FAMILIES[family](clocks, Program.drawn(random), random, seed)
    time = time * np.exp(_smooth(clocks, random, 0.04) + random.normal(size=len(time)) * 0.005)
    power_w = power_w * np.exp(_smooth(clocks, random, 0.025) + random.normal(size=len(time)) * 0.006)
    return _rows(modes, 0.1 * time, power_w)


def large_table() -> list[ProfileRow]:
    """Return a table of the 18,096 modes of the twin of an Orin AGX, with the figures of one program."""
    modes = _modes({name: np.array(values) for name, values in open_twin("twin:orin-agx").modes.space.knobs.items()})
    clocks = Clocks.of(modes["cpu_mhz"] * np.sqrt(modes["cpu_cores"]), modes["gpu_mhz"], modes["mem_mhz"])
    time, power_w = Program(USUAL_SHARES, 3.0).figures(clocks)
    return _rows(modes, 0.1 * time, 5 * power_w)


def _switching(clock: Array) -> Array:
    """Return clock x voltage squared; the voltage rises linearly from 0.6 to 1."""
    return clock * (0.6 + 0.4 * clock) ** 2


def _smooth(clocks: Clocks, random: np.random.Generator, sd: float) -> Array:
    """Return a random smooth function of the places: a Gaussian process of length 0.4, as 64 cosines."""
    waves, phases = random.normal(size=(64, 3)) / 0.4, random.uniform(0, 2 * np.pi, 64)
    return np.asarray(sd * np.sqrt(2 / 64) * np.cos(clocks.places @ waves.T + phases).sum(axis=1))


def _modes(knobs: dict[str, Array]) -> dict[str, Array]:
    """Return the value of each knob in every mode of the full grid."""
    grids = np.meshgrid(*knobs.values(), indexing="ij")
    return {name: grid.ravel().astype(float) for name, grid in zip(knobs, grids, strict=True)}


def _rows(modes: dict[str, Array], times_s: Array, powers_w: Array) -> list[ProfileRow]:
    values: Sequence[dict[str, float]] = [
        dict(zip(modes, mode, strict=True)) for mode in zip(*(each.tolist() for each in modes.values()), strict=True)
    ]
    return [
        ProfileRow("net", "train", 16, float(time_s), power_w=float(power_w), **knobs)
        for time_s, power_w, knobs in zip(times_s, powers_w, values, strict=True)
    ]
