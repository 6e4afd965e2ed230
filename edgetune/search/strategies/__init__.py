"""The strategies, one file each, and the one table that ``--strategy`` lists.

A new strategy is one file, one row here and one line in the tests. Importing this package must stay light:
a strategy that needs a heavy library imports it when it is constructed.
"""

from __future__ import annotations

import difflib

from edgetune.errors import InputError
from edgetune.search.strategies.als import Als
from edgetune.search.strategies.binary import Binary
from edgetune.search.strategies.exhaustive import Exhaustive
from edgetune.search.strategies.gmd import Gmd
from edgetune.search.strategies.gp import Gp
from edgetune.search.strategies.nn import Nn
from edgetune.search.strategies.pareto import Pareto
from edgetune.search.strategies.random import Random
from edgetune.search.strategies.roofline import Roofline
from edgetune.search.strategies.staircase import Staircase
from edgetune.search.strategies.strategy import Strategy
from edgetune.search.strategies.tpe import Tpe


def table_of(*strategies: type[Strategy]) -> dict[str, type[Strategy]]:
    """Return the strategies by name, in the order given.

    Raises:
        ValueError: two strategies share a name.
    """
    table: dict[str, type[Strategy]] = {}
    for strategy in strategies:
        if strategy.name in table:
            raise ValueError(f"two strategies are called {strategy.name!r}")
        table[strategy.name] = strategy
    return table


STRATEGIES: dict[str, type[Strategy]] = table_of(
    Exhaustive, Random, Binary, Nn, Gmd, Als, Roofline, Pareto, Staircase, Tpe, Gp
)


def find_strategy(name: str) -> type[Strategy]:
    """Return the strategy of this name.

    Raises:
        InputError: there is none; the hint names the nearest.
    """
    if name in STRATEGIES:
        return STRATEGIES[name]
    near = difflib.get_close_matches(name, STRATEGIES, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise InputError(f"there is no strategy {name!r}", f"{hint}known: {', '.join(STRATEGIES)}, auto")
