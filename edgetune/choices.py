"""Words that a user may choose from: the nearest known word to a misspelt one."""

from collections.abc import Iterable

from edgetune.errors import InputError


def closest(word: str, words: Iterable[str], *, likeness: float = 0.6) -> str | None:
    """Return the word most like ``word``, whatever the case of letters; ``None`` if none is like it.

    Args:
        word: As written.
        words: The known words.
        likeness: Least likeness, from 0 to 1.
    """
    from difflib import get_close_matches  # used for an error only, and every command loads this module

    spelled = {each.lower(): each for each in words}
    near = get_close_matches(word.lower(), spelled, n=1, cutoff=likeness)
    return spelled[near[0]] if near else None


def nearest(word: str, words: Iterable[str], *, listed: str | None = None, prefix: str = "") -> str:
    """Return the hint for an unknown word: the nearest word, if any is like it, and all words.

    Args:
        word: As written.
        words: The known words.
        listed: The sentence that lists them.
        prefix: Written before the nearest word.
    """
    known = list(words)
    near = closest(word, known)
    listed = listed or f"known: {', '.join(known)}"
    return listed if near is None else f"did you mean {prefix}{near}? {listed}"


def choose(word: str, words: Iterable[str], *, what: str) -> str:
    """Return ``word`` when it is one of ``words``.

    Raises:
        InputError: it is none of them; the hint names the nearest.
    """
    known = list(words)
    if word not in known:
        raise InputError(f"unknown {what}: {word!r}", nearest(word, known))
    return word
