"""The study's network baseline: measure many points at random, learn time and power, trust the predictions.

PowerTrain and Fulcrum measure 250 points and answer every problem from what the network predicts, which can break a
budget. Here an answer is always measured, so the search draws 240 points and measures the ten that the network
predicts best within the budgets; ``predictions`` gives what the publication answers from. In a space of fewer points
four fifths are drawn. The network is taught once, before the first pick; where fewer points are allowed than are drawn,
it is never asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import ProfileRow
from edgetune.search.pairs import Half, judge_pair
from edgetune.search.problem import Judgement, judge
from edgetune.search.strategies.network_search import Asking, NetworkSearch, Predictions

if TYPE_CHECKING:
    from edgetune.search.strategies.network_search import Array

POINTS = 250
"""What Fulcrum gives its network baseline."""
PICKS = 10
DRAWN_SHARE = 0.8
"""Most of a small space that is drawn at random."""


class Nn(NetworkSearch):
    """Points at random, then those that the network predicts best."""

    name: ClassVar[str] = "nn"

    @classmethod
    def default_max_points(cls, problem: Problem) -> int | None:
        """Return 250, Fulcrum's."""
        del problem
        return POINTS

    def predictions(self) -> tuple[Array, Array]:
        """Return s per minibatch and W of every point of the space, learnt from all told so far.

        Raises:
            ValueError: nothing was measured.
        """
        learnt = self._taught()
        return learnt.minibatch_s, learnt.power_w

    def background_predictions(self) -> tuple[Array, Array]:
        """Return the same of the background workload, in the mode of every point of the space.

        Raises:
            ValueError: nothing was measured, or there is one workload only.
        """
        learnt = self._taught()
        if learnt.background_s is None or learnt.background_w is None:
            raise ValueError("there is no background workload")
        return learnt.background_s, learnt.background_w

    def _taught(self) -> Predictions:
        learnt = self._learn()
        if learnt is None:
            raise ValueError("nothing was measured that could teach the network")
        return learnt

    def _search(self) -> Asking:
        count = min(POINTS - PICKS, max(int(DRAWN_SHARE * len(self._drawn)), 1))
        while len(self._told) < count and (yield from self._draw()):
            pass
        learnt = self._learn()
        if learnt is not None:
            for row in self._best_first(learnt):
                yield from self._halves(row, learnt, "best within the budgets by prediction")
        while (yield from self._draw()):
            pass

    def _best_first(self, learnt: Predictions) -> list[int]:
        """Return all rows: those predicted within every budget by objective, then by how far they are over."""
        judged = [self._judge(row, learnt) for row in range(len(self._space.points))]
        return sorted(range(len(judged)), key=lambda row: _rank(judged[row]), reverse=True)

    def _judge(self, row: int, learnt: Predictions) -> Judgement:
        """Return the judgement as if the predictions had been measured."""
        point = self._space.points[row]
        time_s, power_w = float(learnt.minibatch_s[row]), _known(learnt.power_w[row])
        if learnt.background_s is None or learnt.background_w is None:
            predicted = ProfileRow(point.workload, point.task, point.batch_size, time_s, power_w=power_w)
            return judge(self._problem, predicted)
        other = Half(self._partners[row].batch_size, float(learnt.background_s[row]), _known(learnt.background_w[row]))
        return judge_pair(self._problem, Half(point.batch_size, time_s, power_w), other)


def _known(power_w: float) -> float | None:
    return float(power_w) if power_w > 0 else None


def _rank(judgement: Judgement) -> tuple[bool, float, float]:
    excess = sum(violation.value / violation.limit - 1 for violation in judgement.violations)
    return bool(judgement.feasible), -excess, judgement.objective or 0.0
