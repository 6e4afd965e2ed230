"""The strategies, one file each, and the one table that ``--strategy`` lists.

A new strategy is one file, one row here and one line in the tests; a package outside adds one by an entry point of the
group ``edgetune.strategies``. A strategy is imported when it is used.
"""

from edgetune.plugins import Registry
from edgetune.stages.search.strategy import Strategy

STRATEGIES: Registry[type[Strategy]] = Registry(
    "strategy",
    {
        "exhaustive": "edgetune.stages.search.strategies.baselines:Exhaustive",
        "random": "edgetune.stages.search.strategies.baselines:Random",
        "nn": "edgetune.stages.search.strategies.nn:Nn",
        "gmd": "edgetune.stages.search.strategies.gmd:Gmd",
        "als": "edgetune.stages.search.strategies.als:Als",
        "roofline": "edgetune.stages.search.strategies.roofline:RooflineSearch",
        "pareto": "edgetune.stages.search.strategies.pareto:Pareto",
        "staircase": "edgetune.stages.search.strategies.staircase:Staircase",
        "tpe": "edgetune.stages.search.strategies.optuna_search:Tpe",
        "gp": "edgetune.stages.search.strategies.optuna_search:Gp",
        "gmd-study": "edgetune.stages.search.strategies.baselines:GmdStudy",
        "als-study": "edgetune.stages.search.strategies.baselines:AlsStudy",
        "nn-study": "edgetune.stages.search.strategies.baselines:NnStudy",
        "random-study": "edgetune.stages.search.strategies.baselines:RandomStudy",
    },
    group="edgetune.strategies",
    contract=Strategy,
)
