"""Optuna's tree-structured Parzen estimator, the common choice of those who tune by library: a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from edgetune.search.strategies.optuna_search import STARTUP_POINTS, OptunaSearch

if TYPE_CHECKING:
    import optuna


class Tpe(OptunaSearch):
    """Optuna's ``TPESampler`` with its defaults but for the points drawn first; see ``optuna_search``."""

    name: ClassVar[str] = "tpe"

    def sampler(self, seed: int) -> optuna.samplers.BaseSampler:
        """Return the sampler."""
        from optuna.samplers import TPESampler

        return TPESampler(seed=seed, n_startup_trials=STARTUP_POINTS)
