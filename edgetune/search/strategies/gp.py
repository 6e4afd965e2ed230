"""Optuna's Gaussian process with expected improvement under constraints: the strongest general baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from edgetune.artifacts.problem import Problem
from edgetune.errors import InputError
from edgetune.search.space import Space
from edgetune.search.strategies.optuna_search import STARTUP_POINTS, OptunaSearch
from edgetune.search.strategies.strategy import NO_HINTS, Hints

if TYPE_CHECKING:
    import optuna


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
