"""Images drawn from a seed: noisy outlines of shapes.

Text as data sets: characters whose next ones are predicted, drawn from a seed or read from ``.txt`` files.

    x: T h e   c a t      a network sees the characters up to each place
    y: h e   c a t ,      and scores the next one

As in the joint tuning of batch size and GPU clock of 2025 (section 5.1): sequences of 64 characters; English letters,
digits, punctuation, spaces and new lines only; the last tenth of the text is held out.
"""

import string
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgetune.errors import InputError

Array = NDArray[np.float64]

SIDE = 16
"""Pixels along an image's edge."""
_NOISE = 0.5
"""Standard deviation of the noise, of a stroke of brightness 1."""
_STROKE = 0.13
"""Half the width of a stroke; the image reaches from -1 to 1."""


def draw_shapes(samples: int, seed: int) -> tuple[Array, NDArray[np.int64]]:
    """Return images ``[samples, 1, 16, 16]`` and labels 0 to 9, both from the seed.

    Each image is a ring, disc, square, triangle, plus, cross, horizontal, vertical, rising or falling bar of random
    place, size and tilt (up to 15 degrees).
    """
    random = np.random.default_rng(seed)
    labels = random.integers(len(_SHAPES), size=samples)
    size, tilt = random.uniform(0.45, 0.75, samples), np.radians(random.uniform(-15, 15, samples))
    shift = random.uniform(-0.25, 0.25, (2, samples))
    line = np.linspace(-1, 1, SIDE)
    x, y = np.meshgrid(line, line)
    x, y = x - shift[0, :, None, None], y - shift[1, :, None, None]
    c, s = np.cos(tilt)[:, None, None], np.sin(tilt)[:, None, None]
    x, y = (c * x + s * y) / size[:, None, None], (c * y - s * x) / size[:, None, None]
    distance = np.empty((samples, SIDE, SIDE))
    for label, outline in enumerate(_SHAPES):
        chosen = labels == label
        distance[chosen] = outline(x[chosen], y[chosen])
    stroke = _STROKE / size[:, None, None]
    images = 1 / (1 + np.exp((distance - stroke) / (0.3 * stroke)))  # soft edges, as of an image scaled down
    images += random.normal(0, _NOISE, images.shape)
    return images[:, None], labels


def _bar(along: Array, across: Array) -> Array:
    """Return the distance from a stroke of length 2 through the middle."""
    distance: Array = np.hypot(np.maximum(np.abs(along) - 1, 0), across)
    return distance


def _triangle(x: Array, y: Array) -> Array:
    """Return the distance from the outline of an equilateral triangle, exact inside and near it."""
    sides = [np.cos(a) * x + np.sin(a) * y - 0.5 for a in (np.pi / 2, np.pi * 7 / 6, np.pi * 11 / 6)]
    outline: Array = np.abs(np.maximum.reduce(sides))
    return outline


_HALF = np.sqrt(0.5)
_SHAPES: tuple[Callable[[Array, Array], Array], ...] = (
    lambda x, y: np.abs(np.hypot(x, y) - 1),
    lambda x, y: np.maximum(np.hypot(x, y) - 0.8, 0),
    lambda x, y: np.abs(np.maximum(np.abs(x), np.abs(y)) - 0.9),
    _triangle,
    lambda x, y: np.minimum(_bar(x, y), _bar(y, x)),
    lambda x, y: np.minimum(_bar(_HALF * (x + y), _HALF * (x - y)), _bar(_HALF * (x - y), _HALF * (x + y))),
    _bar,
    lambda x, y: _bar(y, x),
    lambda x, y: _bar(_HALF * (x + y), _HALF * (x - y)),
    lambda x, y: _bar(_HALF * (x - y), _HALF * (x + y)),
)


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
