"""How much wrong durations change the order of policies: jobs are run again with layers that take other times.

    as measured     reuse < masa < fcfs        order of the mean responses
    +- 25 %         reuse < fcfs < masa        Kendall's tau of the two orders: (pairs in order - pairs not) / pairs

Policies believe what was measured, and layers take something else: that of each is multiplied by a factor of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from edgetune.stages.schedule.network import LayeredNetwork
from edgetune.stages.schedule.policies.policy import SchedulePolicy
from edgetune.stages.schedule.simulation import SimulationCase, simulate
from edgetune.stages.schedule.tasks import RequestRecord


@dataclass(frozen=True, slots=True)
class Study:
    """The jobs and policies that are run again and again.

    Args:
        case: The jobs as measured; the requests are always the same.
        policies: By name, how a new one is made.
    """

    case: SimulationCase
    policies: Mapping[str, Callable[[], SchedulePolicy]]


@dataclass(frozen=True, slots=True)
class Robustness:
    """The result of one amount of noise.

    Args:
        noise: Factors are between 1 less this and 1 plus this.
        runs: Number of times that factors were drawn.
        tau: Kendall's tau of each run with the order as measured; ties count as in tau-b.
        best_stays: In how many runs the policy that is best as measured was best.
        regret: The most that its mean response was above that of the best, as a share of the latter.
        mean_s: Mean response of each policy over the runs, s.
    """

    noise: float
    runs: int
    tau: tuple[float, ...]
    best_stays: int
    regret: float
    mean_s: Mapping[str, float]


def responses(study: Study, networks: Mapping[str, LayeredNetwork] | None = None) -> dict[str, float]:
    """Return the mean response of each policy, s, where layers really are those of ``networks``."""
    found = {}
    for name, make in study.policies.items():
        ran = simulate(make(), study.case if networks is None else replace(study.case, networks=networks))
        taken = [record.response_ns for record in ran.records if isinstance(record, RequestRecord)]
        found[name] = sum(taken) / len(taken) / 1e9
    return found


def robustness(study: Study, noise: float, *, runs: int, seed: int, with_bytes: bool = False) -> Robustness:
    """Return the effect of one amount of noise on the order of policies.

    Args:
        study: The jobs and policies.
        noise: From 0 to below 1.
        runs: Number of times that factors are drawn.
        seed: Of the factors.
        with_bytes: Whether bytes are other than measured, too: runtimes then hold more than they believe, or less.
    """
    measured, known = responses(study), study.case.networks
    best = min(measured, key=measured.__getitem__)
    taus, stays, regret = [], 0, 0.0
    sums = dict.fromkeys(measured, 0.0)
    for run in range(runs):
        rng = np.random.default_rng((seed, round(noise * 1e6), run))
        drawn = {name: _perturbed(known[name], noise, rng, with_bytes) for name in sorted(known)}
        found = responses(study, drawn)
        taus.append(_tau(measured, found))
        least = min(found.values())
        stays += found[best] <= least
        regret = max(regret, found[best] / least - 1 if least else 0.0)
        sums = {name: sums[name] + found[name] for name in sums}
    mean_s = {name: total / runs for name, total in sums.items()}
    return Robustness(noise, runs, tuple(taus), stays, regret, mean_s)


def _tau(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    """Return Kendall's tau-b; 1 where all policies are alike in both orders, 0 where in one only."""
    if len(set(first.values())) == 1 or len(set(second.values())) == 1:
        return float(len(set(first.values())) == len(set(second.values())))
    found: Any = kendalltau(list(first.values()), [second[name] for name in first])
    return float(found.statistic)


def _perturbed(network: LayeredNetwork, noise: float, rng: np.random.Generator, with_bytes: bool) -> LayeredNetwork:
    """Return a network each of whose figures is multiplied by a factor of its own."""
    names = ("load_s", "execute_s", "weight_bytes", "output_bytes", "scratch_bytes")
    layers = []
    for layer in network.layers:
        factors = rng.uniform(1 - noise, 1 + noise, len(names)).tolist()  # all in either case: times are then the same
        changed = {name: getattr(layer, name) * factor for name, factor in zip(names, factors, strict=True)}
        sizes = {name: round(changed.pop(name)) for name in names[2:]}
        layers.append(replace(layer, **changed, **(sizes if with_bytes else {})))
    return replace(network, layers=tuple(layers))
