"""The strategies, one file each, and the one table that ``--strategy`` lists.

A new strategy is one file, one row here and one line in the tests. Importing this package must stay light:
a strategy that needs a heavy library imports it when it is constructed.
"""

from __future__ import annotations

from edgetune.plugins import find, table_of
from edgetune.search.strategies.als import Als
from edgetune.search.strategies.binary import Binary
from edgetune.search.strategies.exhaustive import Exhaustive
from edgetune.search.strategies.gmd import Gmd
from edgetune.search.strategies.gp import Gp
from edgetune.search.strategies.nn import Nn
from edgetune.search.strategies.pareto import Pareto
from edgetune.search.strategies.random import Random
from edgetune.search.strategies.roofline import RooflineSearch
from edgetune.search.strategies.staircase import Staircase
from edgetune.search.strategies.strategy import Strategy
from edgetune.search.strategies.tpe import Tpe

STRATEGIES: dict[str, type[Strategy]] = table_of(
    [Exhaustive, Random, Binary, Nn, Gmd, Als, RooflineSearch, Pareto, Staircase, Tpe, Gp], kinds="strategies"
)


def find_strategy(name: str) -> type[Strategy]:
    """Return the strategy of this name.

    Raises:
        InputError: there is none; the hint names the nearest.
    """
    return find(STRATEGIES, name, kind="strategy", also=["auto"])
