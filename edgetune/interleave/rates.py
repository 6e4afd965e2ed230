"""Has the rate of requests changed? Told apart from the scatter that any rate has.

    gaps   | | |  |  | | | |||||||||||||
    evidence  ......................./|  <- alarm: the new rate is that since the evidence began to grow

Cumulative sums (Page, "Continuous inspection schemes", Biometrika 41, 1954) of the log-likelihood of exponential gaps,
for rates that rose and that fell, by little and by much. Averages over windows either waver or lag; a sum of evidence
is silent at a steady rate and quick at a step. Regular arrivals waver less than these and are told sooner.
"""

from __future__ import annotations

import math

NS = 1_000_000_000
CHANGE = 1.25
"""The least change looked for, as a ratio of rates: smaller ones fit in the head room of a plan."""
STEP = 2.5
"""A change by much: a sum made for it tells a step to three times the rate after a third of the requests."""
THRESHOLD = 14.0
"""Evidence needed, in natural logarithms of the likelihood ratio: at a steady 60/s a false alarm once in days (Wald's
bound gives a chance of e^-14 per restart), a step to twice the rate is told within about 60 requests."""


class RateTracker:
    """Follows the rate of one tenant's requests.

    Args:
        rate_per_s: As planned, above zero.
        begin_ns: When the first request may come.
    """

    def __init__(self, rate_per_s: float, begin_ns: int) -> None:
        self.rate_per_s = rate_per_s
        self._last_ns = begin_ns
        self._rose, self._fell = _rises(begin_ns), _falls(begin_ns)

    def arrived(self, at_ns: int) -> None:
        """Learn of a request."""
        gap = (at_ns - self._last_ns) / NS * self.rate_per_s
        for evidence in (*self._rose, *self._fell):
            evidence.add(gap, at_ns)
        self._last_ns = at_ns

    def changed(self, now_ns: int) -> float | None:
        """Return the new rate, 1/s, if it has changed by now; it is then what later changes are told from.

        Silence is evidence too: a rate that fell to nothing is seen although no request tells of it. The rate returned
        is then the most that the silence leaves likely.
        """
        for rose in self._rose:
            if rose.total >= THRESHOLD:
                return self.restart(rose.rate_per_s(self._last_ns))
        silence = (now_ns - self._last_ns) / NS * self.rate_per_s
        for fell in self._fell:
            if fell.total + fell.silent(silence) >= THRESHOLD:
                return self.restart(fell.rate_per_s(now_ns, more=1))
        return None

    def restart(self, rate_per_s: float) -> float:
        """Tell changes from another rate from now on, and return it."""
        self.rate_per_s = rate_per_s
        self._rose, self._fell = _rises(self._last_ns), _falls(self._last_ns)
        return rate_per_s


def _rises(since_ns: int) -> tuple[_Evidence, ...]:
    return _Evidence(STEP, since_ns), _Evidence(CHANGE, since_ns)


def _falls(since_ns: int) -> tuple[_Evidence, ...]:
    return _Evidence(1 / STEP, since_ns), _Evidence(1 / CHANGE, since_ns)


class _Evidence:
    """The sum for one change, and since when it has been above zero."""

    def __init__(self, ratio: float, since_ns: int) -> None:
        self.total = 0.0
        self._ratio, self._log = ratio, math.log(ratio)
        self._since_ns, self._count = since_ns, 0

    def add(self, gap: float, at_ns: int) -> None:
        """Add a gap, in units of the mean gap as planned."""
        self.total += self._log + self.silent(gap)
        self._count += 1
        if self.total <= 0.0:
            self.total, self._since_ns, self._count = 0.0, at_ns, 0

    def silent(self, gap: float) -> float:
        """Return what so long without a request says."""
        return (1.0 - self._ratio) * gap

    def rate_per_s(self, now_ns: int, *, more: int = 0) -> float:
        """Return the most likely rate since the evidence began to grow, 1/s."""
        return (self._count + more) * NS / max(now_ns - self._since_ns, 1)
