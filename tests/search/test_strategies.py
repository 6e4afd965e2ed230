"""Every strategy keeps the promises of strategies. A new one adds one class here.

For inference and for two workloads a draw of them is checked in every run, each of them by ``--slow``: see ``DRAWN``.
"""

from functools import partial
from random import Random

import pytest

from contracts import strategy_contract
from contracts.strategy_contract import INFER, PAIR, StrategyContract, grid_points
from edgetune.artifacts.problem import Problem
from edgetune.errors import InputError
from edgetune.stages.search.strategies import STRATEGIES
from edgetune.stages.search.strategies.baselines import Exhaustive

GRID = grid_points()


class TestExhaustive(StrategyContract):
    strategy = "exhaustive"


class TestRandom(StrategyContract):
    strategy = "random"


class TaughtContract(StrategyContract):
    """With 5 epochs, not 1000, where nothing depends on what the network learns or on another process."""

    @pytest.fixture(autouse=True)
    def _fewer_epochs(self, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
        if "another_process" not in request.node.name:
            monkeypatch.setattr("edgetune.stages.search.strategies.power_train_network.EPOCHS", 5)


class TestNn(TaughtContract):
    strategy = "nn"


class TestAls(TaughtContract):
    strategy = "als"

    @pytest.mark.slow  # that of nn, which trains the same network, is not
    def test_same_seed_same_search_in_another_process(self) -> None:
        super().test_same_seed_same_search_in_another_process()


class TestGmd(StrategyContract):
    strategy = "gmd"


class TestGmdStudy(StrategyContract):
    strategy = "gmd-study"
    test_copes_with_holes_in_the_grid_and_with_several_batch_sizes = None  # it does not back-track, and finds nothing


class TestAlsStudy(TaughtContract):
    strategy = "als-study"
    test_same_seed_same_search_in_another_process = None  # as of nn, whose network it takes; training is slower here


class TestNnStudy(TaughtContract):
    strategy = "nn-study"
    test_same_seed_same_search_in_another_process = None


class TestRandomStudy(StrategyContract):
    strategy = "random-study"


class TestRoofline(StrategyContract):
    strategy = "roofline"


class TestPareto(StrategyContract):
    strategy = "pareto"


class TestStaircase(StrategyContract):
    strategy = "staircase"
    problem = Problem("accuracy", power_budget_w=28.0, epochs_to_target=((4, 3.0), (16, 4.0)))


class TestTpe(StrategyContract):
    strategy = "tpe"


@pytest.mark.slow  # its process takes long to fit; TestTpe is of the same class but for the sampler
class TestGp(StrategyContract):
    strategy = "gp"
    budgets_w = (24.0, 40.0)

    @pytest.fixture(autouse=True)
    def _fewer_points_to_walk_through(self, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
        """Walk through 15 points, not 180, where all are asked for: its process is fitted anew for every one."""
        if "never" in request.node.name:
            monkeypatch.setattr(strategy_contract, "grid_points", lambda _kind: GRID[::12])


def test_every_strategy_is_held_to_the_contract():
    classes = [*StrategyContract.__subclasses__(), *TaughtContract.__subclasses__()]
    classes = [cls for cls in classes if cls.__module__ == __name__ and cls not in CONTRACTS]
    held = {cls.strategy for cls in classes if hasattr(cls, "strategy")}
    assert held == set(STRATEGIES)


def test_two_strategies_of_one_name_are_refused():
    with pytest.raises(ValueError, match="there is a strategy 'exhaustive' already"):
        STRATEGIES["exhaustive"] = Exhaustive


def test_the_hint_of_a_misspelt_strategy_names_the_nearest():
    with pytest.raises(InputError) as caught:
        STRATEGIES.find("exaustive")
    assert "did you mean exhaustive?" in caught.value.hint
    with pytest.raises(InputError) as caught:
        STRATEGIES.find("zzz")
    assert "known: " in caught.value.hint
    assert "did you mean" not in caught.value.hint


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
