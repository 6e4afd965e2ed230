"""How often `edgetune compare` errs: points drawn from one distribution, and shifts that it should find.

    python tests/benchmarks/compare_tables.py [--pairs 1000] [--shift 3%]

Minibatch times are simulated as they come: skewed to the right, autocorrelated, some delayed by the operating system,
the first ones warm-up; sampling stops as that of `edgetune profile` does, at its default target. The first row draws
noise and autocorrelation for each pair as quiet boards and hosts have them; the others hold both fixed, up to what no
stopping rule is meant for. `alike` is the share of equal pairs called different (95 % intervals: at most 5 %), `found`
that of shifted pairs called slower.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Iterator
from itertools import islice

from edgetune.stages.profiling.ratio import estimate_of_times, ratio_of
from edgetune.stats import StoppingRule, find_warmup, median
from edgetune.units import parse_share

_SKEW, _DELAYED, _DELAY = 0.8, 0.01, 0.5
_WARMUP, _WARMUP_VALUES = 0.6, 1.5
FIXED = [(noise, correlation) for noise in (0.003, 0.01, 0.02, 0.05) for correlation in (0.0, 0.3, 0.6)]


def times(generator: random.Random, noise: float, correlation: float) -> Iterator[float]:
    """Yield minibatch times around 1: ``noise`` is about their relative scatter, ``correlation`` that of neighbours."""
    state, index = generator.gauss(0, 1), 0
    while True:
        state = correlation * state + math.sqrt(1 - correlation**2) * generator.gauss(0, 1)
        delayed = 1 + _DELAY * generator.random() if generator.random() < _DELAYED else 1.0
        warm = 1 + _WARMUP * math.exp(-index / _WARMUP_VALUES)
        yield (1 + noise * (math.exp(_SKEW * state) - 1) / _SKEW) * delayed * warm
        index += 1


def sampled(series: Iterator[float]) -> list[float]:
    """Return the steady values that the profiler's rule takes of a series."""
    rule, taken = StoppingRule(), list[float]()
    while more := rule.more(taken):
        taken += islice(series, more)
    return taken[find_warmup(taken).length :]


def shares(pairs: int, shift: float, draw: Callable[[], tuple[float, float]], seed: int) -> tuple[float, float, float]:
    """Return the share of equal pairs called different, that of shifted pairs called slower, and the median size."""
    generator = random.Random(seed)
    different, found, counts = 0, 0, []
    for _ in range(pairs):
        noise, correlation = draw()
        before, after = (sampled(times(generator, noise, correlation)) for _ in range(2))
        estimates = [estimate_of_times(values) for values in (before, after, [(1 + shift) * each for each in after])]
        first, same, slower = (each for each in estimates if each is not None)
        different += ratio_of(first, same).differs != 0
        found += ratio_of(first, slower).differs > 0
        counts.append(float(len(before)))
    return different / pairs, found / pairs, median(counts)


def usual(seed: int) -> Callable[[], tuple[float, float]]:
    """Return a function that draws noise from 0.3 to 1.5 % and autocorrelation from 0 to 0.4."""
    generator = random.Random(seed)
    return lambda: (0.003 * 5 ** generator.random(), 0.4 * generator.random())


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--shift", type=parse_share, default=0.03)
    parser.add_argument("--seed", type=int, default=0)
    words = parser.parse_args()
    print(f"{words.pairs} pairs; shift {words.shift:.1%}")
    print("noise  autocorrelation  values  alike  found")
    cases = [("usual", "usual", usual(words.seed))]
    cases += [(f"{noise:.1%}", f"{correlation:g}", lambda found=(noise, correlation): found)
              for noise, correlation in FIXED]  # fmt: skip
    for noise, correlation, draw in cases:
        alike, found, count = shares(words.pairs, words.shift, draw, words.seed)
        print(f"{noise:>5}  {correlation:>15}  {count:6.0f}  {alike:5.1%}  {found:5.1%}", flush=True)


if __name__ == "__main__":
    main()
