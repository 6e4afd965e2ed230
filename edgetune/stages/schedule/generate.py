"""Made-up networks of any shape, with bytes and times at random, to schedule on a clock.

    chain      o-o-o-o-o          skips      o-o-o-o-o   and shortcuts over a few layers
    fan        o<o>o<o>o          branches   o<o-o-o>o   so many chains side by side, once

The first layers are convolutions, the last third fully connected, as in the networks of the literature.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from edgetune.errors import InputError
from edgetune.stages.schedule.network import Layer, LayeredNetwork
from edgetune.units import parse_bytes, parse_time_s

Form = Literal["chain", "skips", "fan", "branches"]
FORMS: tuple[Form, ...] = get_args(Form)
_SKIP = 0.3
"""Share of layers of ``skips`` that read one more layer, up to four before the one before."""
_DENSE = 2 / 3
"""From this part of a network on, layers are fully connected."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """The distribution of a figure.

    Args:
        low, high: Between these.
        logarithmic: Whether every factor is as likely as any other, instead of every difference.
    """

    low: float
    high: float
    logarithmic: bool = False

    def draw(self, rng: random.Random) -> float:
        """Return one figure."""
        if self.logarithmic:
            return float(self.low * (self.high / self.low) ** rng.random())
        return self.low + (self.high - self.low) * rng.random()


@dataclass(frozen=True, slots=True)
class NetworkDesign:
    """The design of networks.

    Args:
        form: The shape of the graph of layers.
        layers: Least and most layers.
        width: Number of layers side by side in a fan or in branches.
        weight_bytes, output_bytes, scratch_bytes: Of each layer.
        load_s, execute_s: Of each layer; where ``load_bytes_per_s`` is given, loads take what that says.
        load_bytes_per_s: Bandwidth of storage; ``None`` where loads have times of their own.
        input_bytes: Of each network.
    """

    form: Form
    layers: tuple[int, int]
    width: int
    weight_bytes: Distribution
    output_bytes: Distribution
    scratch_bytes: Distribution
    execute_s: Distribution
    load_s: Distribution | None = None
    load_bytes_per_s: float | None = None
    input_bytes: int = 0


def parse_distribution(words: str, *, what: str, of: Literal["bytes", "time"]) -> Distribution:
    """Return the distribution in words: ``8MiB``, ``uniform:1MiB:50MiB``, ``log:1MiB:50MiB``.

    Raises:
        InputError: other words, no quantities, or the first is more than the second.
    """
    kind, *parts = words.split(":")
    if not parts:
        kind, parts = "uniform", [words, words]
    example = "log:1MiB:50MiB" if of == "bytes" else "log:1ms:50ms"
    if kind not in ("uniform", "log") or len(parts) != 2:
        raise InputError(f"{what}: no distribution is {words!r}", f"e.g. {parts[0]}, uniform or {example}")
    low, high = (_quantity(part, what=what, of=of) for part in parts)
    if low > high or (kind == "log" and low <= 0):
        raise InputError(
            f"{what}: {words} goes from {parts[0]} to {parts[1]}", f"ascending, above 0 for log: {example}"
        )
    return Distribution(low, high, kind == "log")


def _quantity(word: str, *, what: str, of: Literal["bytes", "time"]) -> float:
    if re.fullmatch(r"0+", word):
        return 0.0
    return float(parse_bytes(word, what=what)) if of == "bytes" else parse_time_s(word, what=what)


def generate(design: NetworkDesign, count: int, *, seed: int) -> tuple[LayeredNetwork, ...]:
    """Return networks ``made-1``, ``made-2``, ...; the same seed gives the same."""
    return tuple(
        _network(f"made-{number}", design, random.Random(f"{seed} {number}")) for number in range(1, count + 1)
    )


def _network(name: str, design: NetworkDesign, rng: random.Random) -> LayeredNetwork:
    size = rng.randint(*design.layers)
    readings = _readings(design, size, rng)
    layers = []
    for index, after in enumerate(readings):
        kind: Literal["conv", "fc"] = "fc" if index >= size * _DENSE else "conv"
        weight_bytes = round(design.weight_bytes.draw(rng))
        load_s = design.load_s.draw(rng) if design.load_s is not None else 0.0
        if design.load_bytes_per_s is not None:
            load_s = weight_bytes / design.load_bytes_per_s
        layers.append(
            Layer(
                f"{kind}{index + 1}",
                kind,
                weight_bytes,
                round(design.output_bytes.draw(rng)),
                round(design.scratch_bytes.draw(rng)),
                load_s,
                design.execute_s.draw(rng),
                after,
            )
        )
    return LayeredNetwork(name, tuple(layers), design.input_bytes)


def _readings(design: NetworkDesign, size: int, rng: random.Random) -> Sequence[tuple[int, ...]]:
    """Return which layers each layer reads."""
    if design.form in ("chain", "skips"):
        found: list[tuple[int, ...]] = [(index - 1,) if index else () for index in range(size)]
        if design.form == "skips":
            for index in range(2, size):
                if rng.random() < _SKIP:
                    found[index] = tuple(sorted({index - 1, rng.randrange(max(0, index - 5), index - 1)}))
        return found
    return _fan(design.width, size) if design.form == "fan" else _branches(design.width, size)


def _fan(width: int, size: int) -> list[tuple[int, ...]]:
    """Return one layer, ``width`` that read it, one that reads those, and so on."""
    found: list[tuple[int, ...]] = []
    last: tuple[int, ...] = ()
    while len(found) < size:
        first = len(found)
        found += [last] * min(width if len(last) == 1 else 1, size - first)
        last = tuple(range(first, len(found)))
    return found


def _branches(width: int, size: int) -> list[tuple[int, ...]]:
    """Return one layer, then chains side by side that all begin at it, then one layer that reads the ends of all."""
    found: list[tuple[int, ...]] = [()]
    ends: dict[int, int] = {}
    for index in range(1, size - 1):
        branch = (index - 1) % width
        found.append((ends.get(branch, 0),))
        ends[branch] = index
    if size > 1:
        found.append(tuple(sorted(ends.values())) or (0,))
    return found
