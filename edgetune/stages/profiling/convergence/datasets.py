"""The datasets that proxies are trained on: drawn shapes and gratings, or the arrays of a ``.npz`` file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetune.artifacts.npz import read_npz
from edgetune.errors import InputError

Array = NDArray[np.float64]

SIDE = 16
"""Pixels along an image's edge."""
_SHAPE_NOISE, _GRATING_NOISE = 0.5, 1.7
"""Standard deviation of the noise, of a stroke of brightness 1 and a wave of amplitude 1."""
_STROKE = 0.13
"""Half the width of a stroke; the image reaches from -1 to 1."""
_WAVELENGTHS = (0.5, 0.7)
"""Of fine and coarse gratings."""


def draw_shapes(samples: int, seed: int) -> tuple[Array, NDArray[np.int64]]:
    """Return images ``[samples, 1, 16, 16]`` and labels 0 to 9, both from the seed.

    Each image is a ring, disc, square, triangle, plus, cross, horizontal, vertical, rising or falling bar of random
    place, size and tilt (up to 15 degrees).
    """
    random = np.random.default_rng(seed)
    labels = random.integers(len(_SHAPES), size=samples)
    size, tilt = random.uniform(0.45, 0.75, samples), np.radians(random.uniform(-15, 15, samples))
    shift = random.uniform(-0.25, 0.25, (2, samples))
    x, y = _grid(samples)
    x, y = x - shift[0, :, None, None], y - shift[1, :, None, None]
    c, s = np.cos(tilt)[:, None, None], np.sin(tilt)[:, None, None]
    x, y = (c * x + s * y) / size[:, None, None], (c * y - s * x) / size[:, None, None]
    distance = np.empty((samples, SIDE, SIDE))
    for label, outline in enumerate(_SHAPES):
        chosen = labels == label
        distance[chosen] = outline(x[chosen], y[chosen])
    stroke = _STROKE / size[:, None, None]
    images = 1 / (1 + np.exp((distance - stroke) / (0.3 * stroke)))  # soft edges, as of an image scaled down
    images += random.normal(0, _SHAPE_NOISE, images.shape)
    return images[:, None], labels


def draw_gratings(samples: int, seed: int) -> tuple[Array, NDArray[np.int64]]:
    """Return images ``[samples, 1, 16, 16]`` and labels 0 to 7: four directions of waves, fine and coarse.

    Directions are 45 degrees apart and off by up to 15; the phase is random.
    """
    random = np.random.default_rng(seed)
    labels = random.integers(8, size=samples)
    angle = np.radians(45.0 * (labels % 4) + random.uniform(-15, 15, samples))[:, None, None]
    wavelength = np.where(labels < 4, *_WAVELENGTHS)[:, None, None] * random.uniform(0.9, 1.1, (samples, 1, 1))
    phase = random.uniform(0, 2 * np.pi, (samples, 1, 1))
    x, y = _grid(samples)
    images = np.sin(2 * np.pi * (x * np.cos(angle) + y * np.sin(angle)) / wavelength + phase)
    images += random.normal(0, _GRATING_NOISE, images.shape)
    return images[:, None], labels


def _grid(samples: int) -> tuple[Array, Array]:
    """Return the coordinates of the pixels of every image, from -1 to 1."""
    line = np.linspace(-1, 1, SIDE)
    x, y = np.meshgrid(line, line)
    shape = (samples, SIDE, SIDE)
    return np.broadcast_to(x, shape), np.broadcast_to(y, shape)


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


_TRAINED, _HELD_OUT = 4096, 1024
"""Samples of a drawn data set."""
_SHARE_HELD_OUT = 0.2
"""Of a file that does not say which are held out."""
_AT_ONCE = 1024
"""Samples that are scaled at a time."""
_FORMAT = "a .npz needs x, one array per sample, and y, a whole number from 0 per sample: numpy.savez(FILE, x=x, y=y)"


@dataclass(frozen=True, slots=True)
class SyntheticDataset:
    """A dataset of drawn images.

    Args:
        what: In a few words.
        target_accuracy: Reached by a small network in a few epochs, and by none in one.
        draw: Returns images and labels from a number of samples and a seed.
        size: Samples to learn from.
    """

    what: str
    target_accuracy: float
    draw: Callable[[int, int], tuple[Array, NDArray[np.int64]]]
    size: int = _TRAINED


DRAWN: dict[str, SyntheticDataset] = {
    "shapes": SyntheticDataset("ten noisy outlines, 16 x 16", 0.88, draw_shapes),
    "gratings": SyntheticDataset("eight noisy wave patterns, 16 x 16", 0.85, draw_gratings),
}
"""By name, as written after ``--dataset``."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Samples and their labels.

    Args:
        name: Of the data set, or of its file.
        sha256: Of the file; ``None`` for a drawn one.
        x, y: To learn from: ``[samples, ...]`` of float32, mean 0 and standard deviation 1, and labels from 0.
        x_held_out, y_held_out: To measure the accuracy on, scaled by the same figures.
    """

    name: str
    sha256: str | None
    x: NDArray[np.float32]
    y: NDArray[np.int64]
    x_held_out: NDArray[np.float32]
    y_held_out: NDArray[np.int64]

    @property
    def classes(self) -> int:
        """Number of labels."""
        return int(max(self.y.max(), self.y_held_out.max())) + 1


def load_dataset(reference: str) -> Dataset:
    """Return a drawn data set by its name, or the one in a ``.npz`` file.

    A file holds ``x`` and ``y``, and may hold ``x_test`` and ``y_test``; without them every fifth sample of a shuffled
    order (always the same) is held out.

    Raises:
        InputError: no such name or file, or a file that is not such a data set.
    """
    if reference in DRAWN:
        x, y = DRAWN[reference].draw(_TRAINED + _HELD_OUT, 0)
        return _scaled(reference, None, (x[:_TRAINED], x[_TRAINED:]), (y[:_TRAINED], y[_TRAINED:]))
    data, arrays = _read(reference)
    x, y = _checked(arrays, "x", "y", reference)
    if "x_test" in arrays or "y_test" in arrays:
        x_held_out, y_held_out = _checked(arrays, "x_test", "y_test", reference)
        if x.shape[1:] != x_held_out.shape[1:]:
            message = f"{reference}: samples of x are {_shape(x)}, those of x_test {_shape(x_held_out)}"
            raise InputError(message, "both need the same shape")
    else:
        order = np.random.default_rng(0).permutation(len(x))
        cut = len(x) - max(1, round(_SHARE_HELD_OUT * len(x)))
        x, y, x_held_out, y_held_out = x[order[:cut]], y[order[:cut]], x[order[cut:]], y[order[cut:]]
    return _scaled(Path(reference).stem, hashlib.sha256(data).hexdigest(), (x, x_held_out), (y, y_held_out))


def _scaled(name: str, sha256: str | None, x: tuple[Any, Any], y: tuple[Any, Any]) -> Dataset:
    """Return the dataset, all its samples scaled by the mean and deviation of the training samples."""
    mean, deviation = float(x[0].mean(dtype=np.float64)), float(x[0].std(dtype=np.float64)) or 1.0
    learnt, held_out = (_standard(part, mean, deviation) for part in x)
    return Dataset(name, sha256, learnt, y[0].astype(np.int64), held_out, y[1].astype(np.int64))


def _standard(samples: Any, mean: float, deviation: float) -> Any:
    """Return scaled samples; they are scaled in parts, since the intermediate numbers take eight times the bytes."""
    scaled = np.empty(samples.shape, np.float32)
    for start in range(0, len(samples), _AT_ONCE):
        scaled[start : start + _AT_ONCE] = (samples[start : start + _AT_ONCE] - mean) / deviation
    return scaled


def _read(reference: str) -> tuple[bytes, dict[str, Any]]:
    path = Path(reference)
    if not path.is_file() and (path.suffix != ".npz" or path.exists()):
        raise InputError(f"there is no data set {reference!r}", f"known: {', '.join(DRAWN)}, or a .npz file")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {reference}: {error.strerror or error}", "check the path") from None
    return data, read_npz(data, name=reference, hint=_FORMAT, wanted=("x", "y", "x_test", "y_test").__contains__)


def _checked(arrays: dict[str, Any], x_name: str, y_name: str, reference: str) -> tuple[Any, Any]:
    """Return samples and labels.

    Raises:
        InputError: an array is missing, has another length or type, or contains a value that is no number.
    """
    for name in (x_name, y_name):
        if name not in arrays:
            raise InputError(f"{reference} has no array {name}", _FORMAT)
    x, y = arrays[x_name], arrays[y_name]
    if x.ndim < 1 or y.ndim != 1 or len(x) != len(y):
        message = f"{reference}: {x_name} is {_whole_shape(x)} and {y_name} is {_whole_shape(y)}"
        raise InputError(message, f"{y_name} needs one label for each sample of {x_name}")
    if len(x) < 2:
        raise InputError(f"{reference}: {x_name} has {len(x)} samples", "give it at least two")
    if x.dtype.kind not in "fiub" or y.dtype.kind not in "iu":
        raise InputError(f"{reference}: {x_name} is of {x.dtype} and {y_name} of {y.dtype}", _FORMAT)
    if not np.isfinite(x).all():
        at = int(np.argwhere(~np.isfinite(x.reshape(len(x), -1)).all(axis=1))[0, 0])
        raise InputError(f"{reference}: {x_name} has a NaN or infinite value in sample {at}", "clean the data first")
    if int(y.min()) < 0 or int(y.max()) >= 100_000:
        raise InputError(f"{reference}: {y_name} reaches from {y.min()} to {y.max()}", _FORMAT)
    return x, y


def _shape(array: Any) -> str:
    return "x".join(map(str, array.shape[1:])) or "single numbers"


def _whole_shape(array: Any) -> str:
    return "x".join(map(str, array.shape)) or "a single number"
