"""Words the user may choose from: checked with a suggestion when misspelt."""

from __future__ import annotations

from collections.abc import Iterable

from edgetune.errors import InputError


def nearest(word: str, words: Iterable[str]) -> str:
    """Return a hint that names the nearest word, else all words."""
    from difflib import get_close_matches

    known = list(words)
    close = get_close_matches(word, known, n=1)
    return f"did you mean {close[0]!r}? known: {', '.join(known)}" if close else f"known: {', '.join(known)}"


def choose(word: str, words: Iterable[str], *, what: str) -> str:
    """Return ``word`` when it is one of ``words``.

    Raises:
        InputError: it is not; the hint names the nearest.
    """
    known = list(words)
    if word not in known:
        raise InputError(f"unknown {what}: {word!r}", nearest(word, known))
    return word
