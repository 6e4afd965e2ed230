"""Every strategy keeps the promises of strategies for inference and for two workloads as well.

A draw of them is checked in every run, each of them by ``--slow``: see ``DRAWN``.
"""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from contracts import strategy_contract
from contracts.strategy_contract import INFER, PAIR, StrategyContract, grid_points
from edgetune.artifacts.problem import Problem
from edgetune.stages.search.strategies import STRATEGIES

LIGHT = ("exhaustive", "random", "gmd", "roofline", "pareto", "tpe", "gmd-study", "random-study")
HEAVY = ("nn", "als", "gp", "nn-study", "als-study")
"""They fit a network or a process before every answer: here on few points and with few epochs, not for every kind."""

BUDGETS_W = (24.0, 40.0)
"""Of which each answer is checked: more of them where the strategies train."""


def sparse(kind: str, step: int) -> list:
    """Return the landscape's points in every ``step``-th mode."""
    points = grid_points(kind)
    modes = list(dict.fromkeys(point.mode for point in points))[::step]
    return [point for point in points if point.mode in modes]


class Shrunk(StrategyContract):
    """With little to learn from and little learning. Other processes would not know of that: see the training tests."""

    test_same_seed_same_search_in_another_process = None

    @pytest.fixture(autouse=True)
    def _little(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("edgetune.stages.search.strategies.power_train_network.EPOCHS", 5)
        step = 12 if self.strategy == "gp" else 6  # its process is fitted anew for every point
        monkeypatch.setattr(strategy_contract, "grid_points", partial(sparse, step=step))


def contract_of(strategy: str, problem: Problem, base: type[StrategyContract]) -> type[StrategyContract]:
    name = "Test" + "".join(word.title() for word in (strategy, *problem.kind.split("+")))
    return type(
        name, (base,), {"strategy": strategy, "problem": problem, "budgets_w": BUDGETS_W, "__module__": __name__}
    )


CONTRACTS = [
    *(contract_of(strategy, problem, StrategyContract) for strategy in LIGHT for problem in (INFER, PAIR)),
    *(contract_of(strategy, PAIR, Shrunk) for strategy in HEAVY),
    *(contract_of(strategy, INFER, Shrunk) for strategy in ("nn", "als-study")),
]
DRAWN = Random(8).sample(CONTRACTS, 5)
globals().update({each.__name__: each if each in DRAWN else pytest.mark.slow(each) for each in CONTRACTS})


def test_every_strategy_is_held_to_the_contract_of_every_kind():
    held = {(contract.strategy, contract.problem.kind) for contract in CONTRACTS}
    spared = {(name, "infer") for name in ("als", "gp", "nn-study")}  # they take long, and do nothing else there
    alone = {"staircase"}  # for time to accuracy only
    every = {(name, kind) for name in set(STRATEGIES) - alone for kind in ("infer", "train+infer")}
    assert held == every - spared
    assert {contract.problem.kind for contract in DRAWN} == {"infer", "train+infer"}
