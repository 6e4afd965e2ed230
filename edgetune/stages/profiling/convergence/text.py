"""Text as data sets: characters whose next ones are predicted, drawn from a seed or read from ``.txt`` files.

    x: T h e   c a t      a network sees the characters up to each place
    y: h e   c a t ,      and scores the next one

As in the joint tuning of batch size and GPU clock of 2025 (section 5.1): sequences of 64 characters; English letters,
digits, punctuation, spaces and new lines only; the last tenth of the text is held out.
"""

import string
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgetune.errors import InputError

Tokens = NDArray[np.int64]

CHARACTERS = "\n " + string.ascii_letters + string.digits + string.punctuation
"""The vocabulary of text files; other characters are left out."""
SEQUENCE = 64
_DRAWN_SEQUENCE = 32
_SHARE_HELD_OUT = 0.1
_WORDS, _LETTERS = 80, 14
"""Of the language of ``draw_words``."""
_LIKELY = 0.8
"""Chance of the likeliest letter after each pair, in ``draw_chain``."""


def draw_words(samples: int, seed: int) -> tuple[Tokens, Tokens]:
    """Return sequences and next characters ``[samples, 32]``: made-up words, frequent and rare ones by Zipf's law.

    The words are always the same; the seed draws their order.
    """
    language, random = np.random.default_rng(0), np.random.default_rng(seed)
    words = [[*language.integers(1, _LETTERS + 1, language.integers(2, 7)), 0] for _ in range(_WORDS)]
    chances = 1 / np.arange(1, _WORDS + 1)
    length = samples * _DRAWN_SEQUENCE + 1
    drawn = random.choice(_WORDS, size=length, p=chances / chances.sum())  # each has more than one character
    text = np.concatenate([words[word] for word in drawn[: length // 2 + 1]])
    return in_sequences(text[:length].astype(np.int64), _DRAWN_SEQUENCE)


def draw_chain(samples: int, seed: int) -> tuple[Tokens, Tokens]:
    """Return sequences and next letters ``[samples, 32]`` in which two letters decide which is the likeliest next one.

    Which one is always the same; the seed draws the text.
    """
    language, random = np.random.default_rng(1), np.random.default_rng(seed)
    likeliest = language.integers(_LETTERS, size=(_LETTERS, _LETTERS))
    length = samples * _DRAWN_SEQUENCE + 1
    text = random.integers(_LETTERS, size=length)
    certain = random.random(length) < _LIKELY
    for place in range(2, length):
        if certain[place]:
            text[place] = likeliest[text[place - 2], text[place - 1]]
    return in_sequences(text, _DRAWN_SEQUENCE)


def text_files(path: Path) -> list[Path]:
    """Return the ``.txt`` files of a path: itself, or those in the folder, by name."""
    return [path] if path.suffix == ".txt" and path.is_file() else sorted(path.glob("*.txt"))


def read_text(path: Path) -> tuple[tuple[Tokens, Tokens], tuple[Tokens, Tokens]]:
    """Return sequences to learn from and held-out ones, with their next characters, all ``[sequences, 64]``.

    Raises:
        InputError: a file is unreadable, or the text is shorter than eleven sequences.
    """
    try:
        text = "\n".join(file.read_text(encoding="utf-8", errors="ignore") for file in text_files(path))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}", "check the path") from None
    places = {character: place for place, character in enumerate(CHARACTERS)}
    tokens = np.array([places[character] for character in text if character in places], np.int64)
    cut = len(tokens) - round(_SHARE_HELD_OUT * len(tokens))
    if len(tokens) - cut <= SEQUENCE:
        message = f"{path} has {len(tokens)} characters of English text"
        raise InputError(message, f"give it {round((SEQUENCE + 1) / _SHARE_HELD_OUT)} or more")
    return in_sequences(tokens[:cut], SEQUENCE), in_sequences(tokens[cut:], SEQUENCE)


def in_sequences(text: Tokens, length: int) -> tuple[Tokens, Tokens]:
    """Return the sequences of a text and their next characters, both ``[sequences, length]``."""
    count = (len(text) - 1) // length
    x, y = text[: count * length], text[1 : count * length + 1]
    return x.reshape(count, length), y.reshape(count, length)
