"""What the next minibatch will take: cautious, and corrected by every one that runs.

A slow minibatch raises the estimate at once, so that the next is not started on a stale one; the surcharge then fades
with time, not with minibatches, because a job that is not started any more would never be tried again.
"""

from __future__ import annotations

_NEWEST = 1 / 8
"""Weight of the newest in the running mean; as TCP smooths round-trip times (RFC 6298)."""
_HALF_LIFE_NS = 2_000_000_000
"""A surcharge halves in this time: long against a minibatch, short against a change of mode or of heat."""


class DurationEstimate:
    """The duration of one tenant's minibatches, ns.

    Args:
        minibatch_ns: As planned.
    """

    def __init__(self, minibatch_ns: int) -> None:
        self._mean_ns = float(minibatch_ns)
        self._surcharge_ns = 0.0
        self._at_ns = 0
        self._observed = False

    @property
    def mean_ns(self) -> float:
        """What a minibatch takes in the mean, ns."""
        return self._mean_ns

    @property
    def observed(self) -> bool:
        """Whether a minibatch was seen yet: before, it is only believed what one takes."""
        return self._observed

    def observe(self, duration_ns: int, now_ns: int) -> None:
        """Learn from a minibatch that ended at ``now_ns``."""
        surcharge_ns = self._faded(now_ns)
        over_ns = duration_ns - self._mean_ns
        self._mean_ns = float(duration_ns) if not self._observed else self._mean_ns + _NEWEST * over_ns
        self._surcharge_ns = max(surcharge_ns, duration_ns - self._mean_ns)
        self._at_ns, self._observed = now_ns, True

    def cautious_ns(self, now_ns: int) -> int:
        """Return what the next one may take, ns."""
        return round(self._mean_ns + self._faded(now_ns))

    def _faded(self, now_ns: int) -> float:
        return float(self._surcharge_ns * 0.5 ** ((now_ns - self._at_ns) / _HALF_LIFE_NS))
