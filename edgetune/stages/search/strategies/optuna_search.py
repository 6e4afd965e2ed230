"""The strategies ``tpe`` and ``gp``: searches led by Optuna's samplers, as baselines.

Optuna sees each knob as the index of its value, from 0 at the lowest, so that it knows their order; names of modes are
a category. It maximises the objective under its own constraints: value / limit - 1 of every budget, above zero where
the budget is broken.

Optuna knows no tables: it may ask for a place where no point is offered, or for a point already measured. The nearest
offered point that is not measured yet is then taken (steps on each axis as a share of its length, added up). A failed
measurement is told as a failed trial, from which the samplers learn nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from edgetune.artifacts.problem import Problem, asked_budgets
from edgetune.artifacts.profile import Point
from edgetune.errors import InputError
from edgetune.stages.search.problem import peak_latency_s
from edgetune.stages.search.space import Levels, Space
from edgetune.stages.search.strategy import NO_HINTS, Hints, PointResult, Strategy, Suggestion

if TYPE_CHECKING:
    import optuna


STARTUP_POINTS = 4
"""Points drawn at random before the sampler's model is used. Optuna's own 10 would make ten points a random draw."""
_WORST_EXCESS = 10.0
"""Upper bound of the excess over a budget, as a share: the excess of a pair without any room is infinite."""


class OptunaSearch(Strategy):
    """A search led by an Optuna sampler, which a subclass names."""

    takes_names: ClassVar[bool] = True
    judges_columns: ClassVar[bool] = True

    def __init__(self, space: Space, problem: Problem, *, seed: int, hints: Hints = NO_HINTS) -> None:
        del hints
        with _optuna(self.name) as library:
            self._study: optuna.Study = library.create_study(sampler=self.sampler(seed), direction="maximize")
            self._distributions: dict[str, optuna.distributions.BaseDistribution] = {
                axis.name: library.distributions.CategoricalDistribution(range(len(axis.values)))
                if axis.labels
                else library.distributions.IntDistribution(0, len(axis.values) - 1)
                for axis in space.axes
            }
        self._space, self._problem = space, problem
        self._left = dict.fromkeys(space.points)
        self._values: list[float] = []
        self._asked: dict[Point, optuna.Trial] = {}

    def sampler(self, seed: int) -> optuna.samplers.BaseSampler:
        """Return the sampler; runs with Optuna imported and quiet."""
        raise NotImplementedError

    def ask(self) -> Suggestion | None:
        """Return the point that the sampler asks for, or the nearest unmeasured one; ``None`` if none is left."""
        if not self._left:
            return None
        with _optuna(self.name) as library:
            trial = self._study.ask(self._distributions)
            wanted = tuple(int(trial.params[axis.name]) for axis in self._space.axes)
            point = self._space.at(wanted)
            if point is not None and point in self._left:
                self._asked[point] = trial
                return Suggestion(point, f"{self.name} asks for it")
            self._study.tell(trial, state=library.trial.TrialState.FAIL)
        return Suggestion(self._nearest(wanted), f"nearest left to what {self.name} asks for")

    def tell(self, point: Point, result: PointResult) -> None:
        """Tell Optuna the objective of a point and how far it is within or over each budget."""
        self._left.pop(point, None)
        value = self._value(result)
        excess = self._excess(point, result)
        trial = self._asked.pop(point, None)
        with _optuna(self.name) as library:
            if value is None:
                if trial is not None:
                    self._study.tell(trial, state=library.trial.TrialState.FAIL)
                return
            if trial is None:
                known = {"params": self._place(point), "distributions": self._distributions, "constraints": excess}
                self._study.add_trial(library.trial.create_trial(value=value, **known))
                return
            for name, share in excess.items():
                trial.set_constraint(name, share)
            self._study.tell(trial, value)

    def _value(self, result: PointResult) -> float | None:
        """Return the objective; ``None`` for a failed measurement.

        The objective of a point that one half ruled out is unknown. Optuna needs an objective beside the broken budget,
        and gets the mean of the others, which biases it least.
        """
        value, feasible = result.judgement.objective, result.judgement.feasible
        if result.minibatch_s is None or (value is None and feasible is None):
            return None
        if value is None:
            return sum(self._values) / max(len(self._values), 1)
        self._values.append(value)
        return value

    def _place(self, point: Point) -> dict[str, int]:
        return {axis.name: level for axis, level in zip(self._space.axes, self._space.levels[point], strict=True)}

    def _nearest(self, wanted: Levels) -> Point:
        levels = self._space.levels
        return min(self._left, key=lambda point: (self._space.distance(levels[point], wanted), levels[point]))

    def _excess(self, point: Point, result: PointResult) -> dict[str, float]:
        """Return the excess of the point over each budget as a share, negative within the budget; 0 where unknown.

        The judgement has the excess of a broken budget; that of a kept budget is computed here, for one workload.
        """
        problem, kept = self._problem, 1 - self._problem.margin
        found: dict[str, float] = {}
        time_s, power_w = result.minibatch_s, result.power_w
        if problem.power_budget_w is not None:
            found["power"] = 0.0 if power_w is None else power_w / (problem.power_budget_w * kept) - 1
        single = problem.kind == "infer" and time_s is not None
        if problem.arrival_rate_per_s is not None:
            found["rate"] = (time_s or 0.0) * problem.arrival_rate_per_s / point.batch_size - 1 if single else 0.0
        if problem.latency_budget_s is not None:
            latency_s = peak_latency_s(problem, point.batch_size, result.late_s or time_s or 0.0)
            found["latency"] = latency_s / (problem.latency_budget_s * kept) - 1 if single else 0.0
        if problem.kind in ("train+infer", "infer+infer"):
            found["room"] = 0.0
        found |= {budget.name: 0.0 for budget in asked_budgets(problem)}
        found |= {name: share - 1 for name, share in result.judgement.shares}
        for violation in result.judgement.violations:
            found[violation.constraint] = violation.value / violation.limit - 1
        return {name: min(share, _WORST_EXCESS) for name, share in found.items()}


@contextmanager
def _optuna(strategy: str) -> Iterator[Any]:
    """Import Optuna and silence its log and its warnings of experimental features until the end of the context.

    Raises:
        InputError: it is not installed.
    """
    try:
        import optuna
    except ImportError as error:
        raise InputError(f"{strategy} needs Optuna: {error}", "pip install 'edgetune[bayes]'") from None
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield optuna
    finally:
        optuna.logging.set_verbosity(level)


class Tpe(OptunaSearch):
    """Optuna's ``TPESampler`` with its defaults but for the points drawn first; see ``optuna_search``."""

    name: ClassVar[str] = "tpe"

    def sampler(self, seed: int) -> optuna.samplers.BaseSampler:
        """Return the sampler."""
        from optuna.samplers import TPESampler

        return TPESampler(seed=seed, n_startup_trials=STARTUP_POINTS)


class Gp(OptunaSearch):
    """Optuna's ``GPSampler`` with its defaults but for the points drawn first; see ``optuna_search``."""

    name: ClassVar[str] = "gp"

    def __init__(self, space: Space, problem: Problem, *, seed: int, hints: Hints = NO_HINTS) -> None:
        try:
            import torch  # noqa: F401  (the sampler fits its process with it, and only says so at its fifth point)
        except ImportError as error:
            raise InputError(f"gp needs PyTorch: {error}", "pip install 'edgetune[bayes,torch]'") from None
        super().__init__(space, problem, seed=seed, hints=hints)

    def sampler(self, seed: int) -> optuna.samplers.BaseSampler:
        """Return the sampler."""
        from optuna.samplers import GPSampler

        return GPSampler(seed=seed, n_startup_trials=STARTUP_POINTS)
