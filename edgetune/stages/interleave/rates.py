"""Detects changes of the rate of requests, as distinct from the scatter that any rate has.

    gaps   | | |  |  | | | |||||||||||||
    evidence  ......................./|  <- alarm: the new rate is that since the evidence began to grow

Cumulative sums (Page, "Continuous inspection schemes", Biometrika 41, 1954) of the log-likelihood of exponential gaps,
for rates that rose and that fell, by little and by much. Averages over windows either waver or lag; a sum of evidence
stays low at a steady rate and rises fast at a step. Regular arrivals scatter less, and their changes are found sooner.
"""

from __future__ import annotations

import math
from collections import deque

from edgetune.units import NS

CHANGE = 1.25
"""The least change to detect, as a ratio of rates: smaller ones fit in the headroom of a plan."""
STEP = 2.5
"""A large change: a sum made for it detects a step to three times the rate after a third of the requests."""
THRESHOLD = 14.0
"""Evidence needed, in natural logarithms of the likelihood ratio: at a steady 60/s a false alarm once in days (Wald's
bound gives a chance of e^-14 per restart), a step to twice the rate is detected within about 60 requests."""


RECENT = 100
"""Most requests over which a new rate is counted at first: older evidence is of an older rate."""
_SETTLED = 800
"""Requests over which a new rate is counted at last: the number of random ones scatters by 4 %."""


class RateTracker:
    """Follows the rate of one tenant's requests.

    A new rate is a guess at first, and rather too extreme, because it is found when the evidence happens to be strong.
    So it is counted again over the next hundred requests, and returned again if it was wrong; then, as long as no
    evidence contradicts it, it is refined silently over two, four and eight hundred.

    Args:
        rate_per_s: As planned, above zero.
        begin_ns: When the first request may come.
    """

    def __init__(self, rate_per_s: float, begin_ns: int) -> None:
        self.rate_per_s = rate_per_s
        self._last_ns = begin_ns
        self._recent_ns = deque([begin_ns], RECENT + 1)
        self._since_ns, self._count = begin_ns, 0
        self._count_at: int | None = None
        """Count of requests at which the rate is looked at again; ``None`` while it is the planned one."""
        self._rose, self._fell = _rises(begin_ns), _falls(begin_ns)

    @property
    def settled(self) -> bool:
        """Whether the rate is more than a guess made as soon as it changed."""
        return self._count_at != RECENT

    def arrived(self, at_ns: int) -> None:
        """Note a request."""
        gap = (at_ns - self._last_ns) / NS * self.rate_per_s
        for evidence in (*self._rose, *self._fell):
            evidence.add(gap, at_ns)
        self._last_ns = at_ns
        self._recent_ns.append(at_ns)
        self._count += 1

    def changed(self, now_ns: int) -> float | None:
        """Return the new rate, 1/s, if it has changed by now; later changes are relative to it.

        Silence is evidence too: a rate that fell to zero is detected without a request. The rate returned is then the
        highest that the silence leaves likely.
        """
        if self._count_at == RECENT:
            return self._counted_afresh(now_ns)
        for rose in self._rose:
            if rose.total >= THRESHOLD:
                return self.restart(self._rate_since(rose, self._last_ns))
        silence = (now_ns - self._last_ns) / NS * self.rate_per_s
        for fell in self._fell:
            if fell.total + fell.silent(silence) >= THRESHOLD:
                return self.restart(self._rate_since(fell, now_ns))
        if self._count_at is not None and self._count >= self._count_at:
            self._refine()
        return None

    def restart(self, rate_per_s: float) -> float:
        """Assume this rate, to be counted again, and return it."""
        self._since_ns, self._count, self._count_at = self._last_ns, 0, RECENT
        return self._take(rate_per_s)

    def _take(self, rate_per_s: float) -> float:
        self.rate_per_s = rate_per_s
        self._rose, self._fell = _rises(self._last_ns), _falls(self._last_ns)
        return rate_per_s

    def _counted_afresh(self, now_ns: int) -> float | None:
        """Return the rate if the guess was wrong, once enough requests came, or should have come."""
        silent = (now_ns - self._since_ns) / NS * self.rate_per_s >= CHANGE * RECENT
        if self._count < RECENT and not silent:
            return None
        guess = self.rate_per_s
        rate = self._take(max(self._count, 1) * NS / max((now_ns if silent else self._last_ns) - self._since_ns, 1))
        self._count_at = 2 * RECENT
        return rate if not 1 / CHANGE < rate / guess < CHANGE else None

    def _refine(self) -> None:
        """Count the rate over all requests since it changed, unless there is evidence that it changed since."""
        if all(evidence.total < THRESHOLD / 2 for evidence in (*self._rose, *self._fell)):
            self._take(self._count * NS / max(self._last_ns - self._since_ns, 1))
        self._count_at = None if self._count >= _SETTLED else 2 * self._count

    def _rate_since(self, evidence: _Evidence, now_ns: int) -> float:
        """Return the rate since evidence began to grow, or of the latest requests if those are fewer, 1/s.

        Where now is later than the last request, one more may be about to come.
        """
        count = min(evidence.count, len(self._recent_ns) - 1)
        since_ns = self._recent_ns[-1 - count] if count else evidence.since_ns
        return (count + (now_ns > self._last_ns)) * NS / max(now_ns - since_ns, 1)


def _rises(since_ns: int) -> tuple[_Evidence, ...]:
    return _Evidence(STEP, since_ns), _Evidence(CHANGE, since_ns)


def _falls(since_ns: int) -> tuple[_Evidence, ...]:
    return _Evidence(1 / STEP, since_ns), _Evidence(1 / CHANGE, since_ns)


class _Evidence:
    """The sum for one change, and since when it has been above zero."""

    def __init__(self, ratio: float, since_ns: int) -> None:
        self.total = 0.0
        self._ratio, self._log = ratio, math.log(ratio)
        self.since_ns, self.count = since_ns, 0

    def add(self, gap: float, at_ns: int) -> None:
        """Add a gap, in units of the mean gap as planned."""
        self.total += self._log + self.silent(gap)
        self.count += 1
        if self.total <= 0.0:
            self.total, self.since_ns, self.count = 0.0, at_ns, 0

    def silent(self, gap: float) -> float:
        """Return the evidence of so long a gap without a request."""
        return (1.0 - self._ratio) * gap
