"""Which strategies are judged, with how many points each."""

from __future__ import annotations

from dataclasses import dataclass

from edgetune.errors import InputError
from edgetune.search.strategies import find_strategy


@dataclass(frozen=True, slots=True)
class Contender:
    """A strategy and the most points it may measure per problem; ``None`` for its own number."""

    strategy: str
    max_points: int | None = None

    @property
    def measures_once(self) -> bool:
        """Whether it ignores the budget while it measures, so that one search serves every problem."""
        return find_strategy(self.strategy).budget_free

    def __str__(self) -> str:
        return self.strategy if self.max_points is None else f"{self.strategy}:{self.max_points}"


def parse_contenders(text: str) -> list[Contender]:
    """Return the contenders in ``text``, e.g. ``roofline,gmd,random:250``.

    Raises:
        InputError: an unknown strategy, a number of points that is none, or one named twice.
    """
    found = [_contender(word.strip()) for word in text.split(",") if word.strip()]
    if not found:
        raise InputError("no strategies to judge", "e.g. --strategies roofline,gmd,random:250")
    twice = next((contender for contender in found if found.count(contender) > 1), None)
    if twice is not None:
        raise InputError(f"{twice} is named twice", "name each once")
    return found


def _contender(word: str) -> Contender:
    name, colon, points = word.partition(":")
    find_strategy(name)
    if not colon:
        return Contender(name)
    if not points.isdecimal() or int(points) < 1:
        raise InputError(f"{word!r}: the number of points must be a whole number above zero", f"e.g. {name}:10")
    return Contender(name, int(points))
