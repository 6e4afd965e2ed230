"""Minibatches of a training loop, from the steps of its optimisers and the backward passes before each.

    backward backward adam | backward backward adam |         two minibatches a step: gradients accumulate
    backward adam  backward adam  backward sgd |              one round of the loop, a minibatch

The loop repeats the same steps: its round is the shortest repetition at the end of the series that has every optimiser.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_WAITED = 24
"""Steps in which a loop that repeats itself has done so; afterwards the optimiser that steps least ends a round."""


@dataclass(frozen=True, slots=True)
class OptimiserStep:
    """A step of an optimiser.

    Args:
        time_ns: When it had ended.
        optimiser: Its number in the program.
        optimisers: Optimisers that the program has.
        backwards: Backward passes since the step before, of any optimiser.
    """

    time_ns: int
    optimiser: int
    optimisers: int = 1
    backwards: int = 1


class TrainingRounds:
    """Finds the rounds of a loop and divides each into minibatches."""

    def __init__(self) -> None:
        self._waiting: list[OptimiserStep] = []
        self.length = 0
        """Steps of a round; 0 while it is not known."""
        self._begun_ns: int | None = None
        self._round: list[OptimiserStep] = []
        self._seen: Counter[tuple[int, tuple[int, ...]]] = Counter()
        """Rounds by the minibatches of each and the steps of its optimisers."""

    def add(self, step: OptimiserStep) -> list[tuple[int, int]]:
        """Return when each minibatch that a step completes started and ended, ns."""
        if self.length:
            return self._passed(step)
        self._waiting.append(step)
        self.length = _repetition(self._waiting)
        return self.end() if self.length or len(self._waiting) >= _WAITED else []

    def end(self) -> list[tuple[int, int]]:
        """Return the minibatches of the steps so far, where the loop has not repeated itself yet."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return []
        rarest = min(Counter(step.optimiser for step in waiting).values())
        self.length = self.length or max(1, round(len(waiting) / rarest))
        before = (len(waiting) - 1) % self.length + 1  # the last step ends a round
        self._begun_ns = waiting[before - 1].time_ns
        return [span for step in waiting[before:] for span in self._passed(step)]

    def _passed(self, step: OptimiserStep) -> list[tuple[int, int]]:
        self._round.append(step)
        if len(self._round) < self.length:
            return []
        passed, self._round = self._round, []
        begun_ns, self._begun_ns = self._begun_ns, step.time_ns
        if begun_ns is None:
            return []
        before = [each.backwards for each in passed if each.backwards]
        parts = before[0] if len(before) == 1 else 1
        self._seen[parts, tuple(Counter(each.optimiser for each in passed).values())] += 1
        ends_ns = [begun_ns + (step.time_ns - begun_ns) * part // parts for part in range(parts + 1)]
        return list(pairwise(ends_ns))

    @property
    def _usual(self) -> tuple[int, tuple[int, ...]]:
        ((usual, _),) = self._seen.most_common(1) or [((1, (1,)), 0)]
        return usual

    @property
    def minibatches(self) -> int:
        """Minibatches of a round."""
        return self._usual[0]

    def note(self) -> str | None:
        """Return what a minibatch is, unless it is the step of one optimiser after one backward pass."""
        parts, times = self._usual
        words = []
        if len(times) > 1:
            each = f"{', '.join(map(str, times[:-1]))} and {times[-1]} times"
            words.append(f"a round of the loop, in which {len(times)} optimisers step {each}, is one minibatch")
        if parts > 1:
            what = "a round" if words else "a step of the optimiser"
            words.append(f"{what} after {parts} backward passes is {parts} minibatches")
        return ", but ".join(words) or None


def _repetition(steps: Sequence[OptimiserStep]) -> int:
    """Return the length of the shortest series of steps that ends the given one twice; 0 if an optimiser is missing."""
    numbers, optimisers = [step.optimiser for step in steps], steps[-1].optimisers
    for length in range(optimisers, len(numbers) // 2 + 1):
        last = numbers[-length:]
        if len(set(last)) >= optimisers and last == numbers[-2 * length : -length]:
            return length
    return 0
