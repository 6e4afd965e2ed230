"""Images drawn from a seed: noisy outlines of shapes."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

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
