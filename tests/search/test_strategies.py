"""Every strategy keeps the promises of strategies. A new one adds one class here."""

from __future__ import annotations

import pytest

from edgetune.errors import InputError
from edgetune.search.strategies import STRATEGIES, find_strategy, table_of
from edgetune.search.strategies.exhaustive import Exhaustive
from edgetune.testing.strategy_contract import StrategyContract


class TestExhaustive(StrategyContract):
    strategy = "exhaustive"


class TestRandom(StrategyContract):
    strategy = "random"


class TestGmd(StrategyContract):
    strategy = "gmd"


class TestRoofline(StrategyContract):
    strategy = "roofline"


def test_every_strategy_is_held_to_the_contract():
    held = {cls.strategy for cls in StrategyContract.__subclasses__() if cls.__module__ == __name__}
    assert held == set(STRATEGIES)


def test_two_strategies_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two strategies are called 'exhaustive'"):
        table_of(Exhaustive, Exhaustive)


def test_a_misspelt_strategy_is_told_the_nearest():
    with pytest.raises(InputError) as caught:
        find_strategy("exaustive")
    assert "did you mean exhaustive?" in caught.value.hint
    with pytest.raises(InputError) as caught:
        find_strategy("zzz")
    assert "known: " in caught.value.hint
    assert "did you mean" not in caught.value.hint
