"""The strategies, one file each, and the one table that ``--strategy`` lists.

A new strategy is one file, one row here and one line in the tests; a package outside adds one by an entry point of the
group ``edgetune.strategies``. A strategy is imported when it is used.
"""

from __future__ import annotations

from edgetune.plugins import Registry
from edgetune.search.strategy import Strategy

STRATEGIES: Registry[type[Strategy]] = Registry(
    "strategy",
    {
        "exhaustive": "edgetune.search.strategies.baselines:Exhaustive",
        "random": "edgetune.search.strategies.baselines:Random",
        "binary": "edgetune.search.strategies.binary:Binary",
        "nn": "edgetune.search.strategies.nn:Nn",
        "gmd": "edgetune.search.strategies.gmd:Gmd",
        "als": "edgetune.search.strategies.als:Als",
        "roofline": "edgetune.search.strategies.roofline:RooflineSearch",
        "pareto": "edgetune.search.strategies.pareto:Pareto",
        "staircase": "edgetune.search.strategies.staircase:Staircase",
        "tpe": "edgetune.search.strategies.optuna_search:Tpe",
        "gp": "edgetune.search.strategies.optuna_search:Gp",
    },
    group="edgetune.strategies",
    contract=Strategy,
    also=("auto",),
)


def find_strategy(name: str) -> type[Strategy]:
    """Return the strategy of this name.

    Raises:
        InputError: there is none; the hint names the nearest.
    """
    return STRATEGIES.find(name)
