"""The datasets that proxies are trained on: drawn, arrays of a ``.npz`` file, text files, or folders of pictures."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetune import limits
from edgetune.artifacts.npz import read_npz
from edgetune.errors import EdgetuneError, InputError
from edgetune.stages.profiling.convergence.drawn_data import draw_chain, draw_shapes, draw_words, read_text, text_files

_TRAINED, _HELD_OUT = 4096, 1024
"""Samples of a drawn data set."""
_SHARE_HELD_OUT = 0.2
"""Of a file that does not say which are held out."""
_PICTURES = ("PNG", "JPEG", "WEBP", "BMP", "PPM")
"""Formats that are decoded, whatever a file is called; others would start programs or are rare."""
_EXPANSION = 8
"""Bytes of a decoded picture for each byte of its file, allowed beyond the limit."""
_AT_ONCE = 1024
"""Samples that are scaled at a time."""
_FORMAT = "a .npz needs x, one array per sample, and y, a whole number from 0 per sample: numpy.savez(FILE, x=x, y=y)"


@dataclass(frozen=True, slots=True)
class SyntheticDataset:
    """A drawn dataset.

    Args:
        target_accuracy: Reached by a small network in a few epochs, and by none in one.
        draw: Returns samples and labels from a number of samples and a seed.
        is_text: Whether the samples are characters, whose next ones are the labels.
    """

    target_accuracy: float
    draw: Callable[[int, int], tuple[Any, NDArray[np.int64]]]
    is_text: bool = False


DRAWN: dict[str, SyntheticDataset] = {
    "shapes": SyntheticDataset(0.88, draw_shapes),
    "words": SyntheticDataset(0.7, draw_words, is_text=True),
    "chain": SyntheticDataset(0.7, draw_chain, is_text=True),
}
"""By name, as written after ``--dataset``."""


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """What a plan of training runs says of a data set.

    Args:
        name, sha256, classes: See ``Dataset``.
        samples, held_out: Samples to learn from, and those to measure the accuracy on.
    """

    name: str
    sha256: str | None
    samples: int
    held_out: int
    classes: int


@dataclass(frozen=True, slots=True)
class Dataset:
    """Samples and their labels.

    Args:
        name: Of the data set, or of its file or folder.
        sha256: Of the file, or of what a folder holds; ``None`` for a drawn one.
        x, y: To learn from: ``[samples, ...]`` of float32, mean 0 and standard deviation 1, and labels from 0. For
            networks that take tokens ``[samples, length]`` of int64 as they are, and a label for each sample or token.
        x_held_out, y_held_out: To measure the accuracy on, scaled by the same figures.
    """

    name: str
    sha256: str | None
    x: NDArray[Any]
    y: NDArray[np.int64]
    x_held_out: NDArray[Any]
    y_held_out: NDArray[np.int64]

    @property
    def classes(self) -> int:
        """Number of labels."""
        return int(max(self.y.max(), self.y_held_out.max())) + 1

    @property
    def facts(self) -> DatasetFacts:
        """What a plan of training runs says of it."""
        return DatasetFacts(self.name, self.sha256, len(self.x), len(self.x_held_out), self.classes)

    @property
    def vocabulary(self) -> int:
        """Number of tokens."""
        return int(max(self.x.max(), self.x_held_out.max())) + 1


def load_dataset(reference: str, *, tokens: bool = False) -> Dataset:
    """Return a drawn data set by its name, or the one in a ``.npz`` or ``.txt`` file or in a folder.

    A ``.npz`` file holds ``x`` and ``y``, and may hold ``x_test`` and ``y_test``; without them
    every fifth sample of a shuffled order (always the same) is held out. A folder holds ``.txt`` files, or pictures
    in ``train/CLASS`` and ``test/CLASS``.

    Args:
        reference: Name, file or folder.
        tokens: Whether the network takes tokens: integers, which are not scaled.

    Raises:
        InputError: no such name, file or folder, or one that is not such a data set.
    """
    name, sha256, learnt, held_out = _arrays(reference)
    is_text = DRAWN[reference].is_text if reference in DRAWN else bool(text_files(Path(reference)))
    if is_text and not tokens:
        message = f"{name} is text, and the network takes no characters"
        raise InputError(message, "take proxy:lstm or proxy:transformer, or images")
    if tokens and (learnt[0].dtype.kind not in "iu" or learnt[0].ndim < 2 or learnt[0].min() < 0):
        message = f"{name} has samples of {_shape(learnt[0])} {learnt[0].dtype}, and the network takes tokens"
        raise InputError(message, "take text, a .npz whose x has sequences of whole numbers from 0, or another network")
    if held_out is None:
        learnt, held_out = _split(*learnt)
    if not tokens:
        return _scaled(name, sha256, (learnt[0], held_out[0]), (learnt[1], held_out[1]))
    x, y, x_held_out, y_held_out = (part.astype(np.int64) for part in (*learnt, *held_out))
    return Dataset(name, sha256, x, y, x_held_out, y_held_out)


Labelled = tuple[Any, Any]
"""Samples and their labels."""


def _arrays(reference: str) -> tuple[str, str | None, Labelled, Labelled | None]:
    """Return the name and hash of a data set, its samples to learn from, and the held-out ones if it says which."""
    path = Path(reference)
    if reference in DRAWN:
        x, y = DRAWN[reference].draw(_TRAINED + _HELD_OUT, 0)
        return reference, None, (x[:_TRAINED], y[:_TRAINED]), (x[_TRAINED:], y[_TRAINED:])
    if text_files(path):
        learnt, held_out = read_text(path)
        return path.stem, _sha256_of(*learnt, *held_out), learnt, held_out
    if path.is_dir():
        if not (path / "train").is_dir():
            message = f"the folder {reference} holds neither .txt files nor pictures in train/CLASS and test/CLASS"
            raise InputError(message, f"save its arrays as {_FORMAT.removeprefix('a ')}")
        parts = _pictures(path, "train"), _pictures(path, "test")
        return path.name, _sha256_of(*parts[0], *parts[1]), *parts
    data, arrays = _read(reference)
    x, y = _checked(arrays, "x", "y", reference)
    sha256 = hashlib.sha256(data).hexdigest()
    if "x_test" not in arrays and "y_test" not in arrays:
        return path.stem, sha256, (x, y), None
    x_held_out, y_held_out = _checked(arrays, "x_test", "y_test", reference)
    if x.shape[1:] != x_held_out.shape[1:]:
        message = f"{reference}: samples of x are {_shape(x)}, those of x_test {_shape(x_held_out)}"
        raise InputError(message, "both need the same shape")
    return path.stem, sha256, (x, y), (x_held_out, y_held_out)


def _pictures(path: Path, part: str) -> Labelled:
    """Return the pictures in ``path/part/CLASS``, ``[pictures, 3, height, width]`` of uint8, and labels from 0.

    The classes are the folders in ``path/train``, sorted by name.

    Raises:
        InputError: Pillow is not installed, a file is no picture of ``_PICTURES``, there are none, they differ in size,
            or they are larger than ``array_bytes`` allows.
    """
    try:
        from PIL import Image
    except ImportError:
        raise InputError(f"Pillow is not installed, and {path} holds pictures", "pip install pillow") from None

    classes = sorted(folder.name for folder in (path / "train").iterdir() if folder.is_dir())
    pictures, labels, stored_bytes, expanded_bytes = [], [], 0, 0
    for label, name in enumerate(classes):
        for file in sorted(file for file in (path / part / name).glob("*") if file.is_file()):
            try:
                with Image.open(file, formats=_PICTURES) as image:
                    stored_bytes += file.stat().st_size
                    expanded_bytes += 3 * image.width * image.height
                    limits.check("array_bytes", expanded_bytes, str(path), at_least=_EXPANSION * stored_bytes)
                    pictures.append(np.asarray(image.convert("RGB"), np.uint8))
            except EdgetuneError:
                raise
            except Exception as error:  # of a damaged one, Pillow raises any
                hint = f"take it out of the folder, or store it as {', '.join(_PICTURES)}"
                raise InputError(f"{file} is not a picture: {error}", hint) from None
            labels.append(label)
    if not pictures:
        raise InputError(f"{path / part} has no pictures", "it needs a folder of pictures for each class")
    sizes = {picture.shape for picture in pictures}
    if len(sizes) > 1:
        listed = ", ".join(f"{width}x{height}" for height, width, _ in sorted(sizes)[:4])
        raise InputError(f"the pictures in {path / part} have several sizes: {listed}", "scale them to one")
    return np.stack(pictures).transpose(0, 3, 1, 2), np.array(labels, np.int64)


def _sha256_of(*arrays: Any) -> str:
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def _split(x: Any, y: Any) -> tuple[Labelled, Labelled]:
    """Return four fifths of the samples to learn from, and a fifth held out."""
    order = np.random.default_rng(0).permutation(len(x))
    cut = len(order) - max(1, round(_SHARE_HELD_OUT * len(order)))
    return (x[order[:cut]], y[order[:cut]]), (x[order[cut:]], y[order[cut:]])


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
        hint = f"known: {', '.join(DRAWN)}, a .npz or .txt file, or a folder"
        raise InputError(f"there is no data set {reference!r}", hint)
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
    is_each_labelled = x.dtype.kind in "iu" and y.shape == x.shape
    if x.ndim < 1 or (y.ndim != 1 and not is_each_labelled) or len(x) != len(y):
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
