"""The points still worth measuring, and which of them is worth most."""

from __future__ import annotations

import numpy as np

from edgetune.artifacts.problem import Problem
from edgetune.search.model.beliefs import Beliefs, Rows
from edgetune.search.model.coordinates import Coordinates
from edgetune.search.model.gain import Worth, worth
from edgetune.search.problem import objective_of, peak_latency_s
from edgetune.search.space import Space, value_of
from edgetune.search.strategies.strategy import Outcome
import os
NEGL = float(os.environ.get("NEGL", "2e-4"))
START = os.environ.get("START", "max")
PRUNE = float(os.environ.get("PRUNE", "0.03"))
COARSE = 1500


class Candidates:
    def __init__(self, space: Space, problem: Problem, rng: np.random.Generator) -> None:
        self._space, self._problem = space, problem
        self.coordinates = Coordinates.of(space)
        self._batch = np.array([p.batch_size for p in space.points], dtype=float)
        caps = [value_of(p, "power_limit_w") for p in space.points]
        log_cap = np.log(np.array(caps, dtype=float)) if "power_limit_w" in self.coordinates.names else None
        self.beliefs = Beliefs(self.coordinates, log_cap)
        self._open = np.ones(len(space.points), dtype=bool)
        self._done: list[tuple[int, float, float]] = []
        self._best: float | None = None
        self._budget = np.inf if problem.power_budget_w is None else problem.power_budget_w * (1 - problem.margin)
        self._start = self._plan_start()

    def _plan_start(self):
        names = self.coordinates.names
        d = len(names)
        mid = np.full(d, 0.5)
        if self._problem.kind == "infer" and "batch_size" in names and objective_of(self._problem) == "latency":
            mid[names.index("batch_size")] = 0.0
        plans = [mid]
        if START == "A":
            a = np.array([0.25 if i % 2 else 0.75 for i in range(d)])
            plans += [np.ones(d), a, 1 - a]
        if START == "A2":
            a = np.array([0.25 if i % 2 else 0.75 for i in range(d)])
            plans += [a, 1 - a]
        if START == "max":
            plans += [np.ones(d)]
        return plans

    def note(self, row: int, outcome: Outcome) -> None:
        self._open[row] = False
        if outcome.minibatch_s is None:
            return
        power = np.nan if outcome.power_w is None else outcome.power_w
        self._done.append((row, outcome.minibatch_s, power))
        levels = self.coordinates.levels
        if PRUNE and power > self._budget * (1 + PRUNE):
            mono = [i for i, n in enumerate(self.coordinates.names) if n not in ("batch_size",)]
            above = (levels[:, mono] >= levels[row, mono]).all(axis=1)
            for i, n in enumerate(self.coordinates.names):
                if n in ("batch_size", "mem_mhz"):
                    above &= levels[:, i] == levels[row, i]
            self._open &= ~above
        if outcome.judgement.feasible and outcome.judgement.objective is not None:
            cost = outcome.judgement.objective
            log_cost = -np.log(cost) if cost > 0 else np.log(-cost)
            if self._best is None or log_cost < self._best:
                self._best = log_cost

    def next(self):
        rows = np.flatnonzero(self._open)
        if not len(rows):
            return None
        if not self._done:
            return self._nearest(rows, self._start[0]), "the middle of every knob", None, None
        n = len(self._done)
        r, t, p = (np.array(c) for c in zip(*self._done))
        self.beliefs.learn(r.astype(np.intp), t, p)
        if START == "adapt" and n == 1 and (p[0] > self._budget):
            self._start = [self._start[0], np.zeros(len(self.coordinates.names))]
        elif START == "adapt" and n == 1:
            self._start = [self._start[0], np.ones(len(self.coordinates.names))]
        if n < len(self._start):
            row = self._nearest(rows, self._start[n])
            b = self.beliefs.about(np.array([row]))
            return self._found(row, "designed start", b, 0)
        b = self.beliefs.about(rows)
        w = worth(self._problem, b, self._batch[rows])
        score = w.score(self._best)
        i = int(np.argmax(score))
        if self._best is not None and score[i] < NEGL:
            return None
        return self._found(int(rows[i]), "most to gain", b, i)

    def _found(self, row, reason, b, i):
        lp = float(b.log_power[i])
        return row, reason, float(b.log_time[i]), lp if np.isfinite(lp) else None

    def _nearest(self, rows, place):
        return int(rows[np.argmin(((self.coordinates.unit[rows] - place) ** 2).sum(axis=1))])
