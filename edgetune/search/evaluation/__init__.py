"""Judging strategies: replay many problems against tables in which every point has been measured.

On such a table the best answer to a problem is known, so what a strategy answers after ten measurements can be held
against it: solved or not, truly within budget or not, and how much slower than the best.

    tables --> cases (a table and its grid of problems) --> truth: the best answer of every problem
                 |--> strategies that ignore budgets measure once, and answer every problem from what they measured
                 '--> the others search for every problem anew, in several processes
"""

from edgetune.search.evaluation.replayed import (
    ARRIVAL_RATES_PER_S,
    LATENCY_BUDGETS_S,
    Score,
    ScoreSummary,
    evaluate,
    infer_problems,
    summarise,
    train_problems,
)

__all__ = [
    "ARRIVAL_RATES_PER_S", "LATENCY_BUDGETS_S", "Score", "ScoreSummary", "evaluate", "infer_problems", "summarise",
    "train_problems",
]  # fmt: skip
