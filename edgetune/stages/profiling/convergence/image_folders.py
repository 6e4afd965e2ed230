"""Folders of pictures as they are published: CIFAR-10, SVHN and CINIC-10.

    cifar-10-batches-py/   data_batch_1 ... data_batch_5, test_batch      (pickled by Python)
    cifar-10-batches-bin/  data_batch_1.bin ... test_batch.bin
    svhn/                  train_32x32.mat, test_32x32.mat
    cinic-10/              train/CLASS/*.png, valid/..., test/...         (any folder of classes)

Returned are pixels ``[pictures, channels, height, width]`` of 8 bits, and labels from 0.
"""

from __future__ import annotations

import io
import pickle
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgetune.errors import InputError

Pictures = tuple[NDArray[np.uint8], NDArray[np.int64]]

_CIFAR_RECORD = 1 + 3 * 32 * 32
"""Bytes of a picture in the binary files: its label, then red, green and blue, row by row."""


def reader_of(path: Path) -> Callable[[Path, str], Pictures] | None:
    """Return the reader of a folder of pictures, which takes the folder and ``train`` or ``test``; else ``None``."""
    found: list[tuple[str, Callable[[Path, str], Pictures]]] = [
        ("data_batch_1", _cifar_pickled),
        ("data_batch_1.bin", _cifar_binary),
        ("train_32x32.mat", _svhn),
        ("train", _classes),
    ]
    return next((read for name, read in found if (path / name).exists()), None)


def _cifar_binary(path: Path, part: str) -> Pictures:
    """Return the pictures of the binary version of CIFAR-10."""
    pictures, labels = [], []
    for file in sorted(path.glob("data_batch_*.bin")) if part == "train" else [path / "test_batch.bin"]:
        data = np.frombuffer(_bytes(file), np.uint8)
        if not len(data) or len(data) % _CIFAR_RECORD:
            raise InputError(f"{file} has {len(data)} bytes", f"CIFAR-10 has {_CIFAR_RECORD} for each picture")
        records = data.reshape(-1, _CIFAR_RECORD)
        labels.append(records[:, 0])
        pictures.append(records[:, 1:].reshape(-1, 3, 32, 32))
    return np.concatenate(pictures), np.concatenate(labels).astype(np.int64)


class _PlainArrays(pickle.Unpickler):
    """Reads pickled arrays and nothing else: a pickle can otherwise run any code."""

    def find_class(self, module: str, name: str) -> Any:
        """Return a class that arrays are made of."""
        plain = {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}
        if name == "_reconstruct" and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            return np.zeros(1).__reduce__()[0]
        if (module, name) in plain:
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it holds {module}.{name}")


def _cifar_pickled(path: Path, part: str) -> Pictures:
    """Return the pictures of the Python version of CIFAR-10."""
    pictures, labels = [], []
    for file in sorted(path.glob("data_batch_*")) if part == "train" else [path / "test_batch"]:
        try:
            held = _PlainArrays(io.BytesIO(_bytes(file)), encoding="bytes").load()
            pictures.append(np.asarray(held[b"data"], np.uint8).reshape(-1, 3, 32, 32))
            labels.append(np.asarray(held[b"labels"], np.int64))
        except (pickle.UnpicklingError, EOFError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            reason = " ".join(str(error).split())[:120]
            raise InputError(f"{file} is not a file of CIFAR-10: {reason}", "take the files as published") from None
    return np.concatenate(pictures), np.concatenate(labels)


def _svhn(path: Path, part: str) -> Pictures:
    """Return the pictures of SVHN, whose label 10 is the digit 0."""
    from scipy.io.matlab import MatReadError, loadmat

    file = path / f"{part}_32x32.mat"
    try:
        held = loadmat(io.BytesIO(_bytes(file)))
        pictures = np.asarray(held["X"], np.uint8).transpose(3, 2, 0, 1)
        return pictures, np.asarray(held["y"], np.int64).reshape(-1) % 10
    except (KeyError, TypeError, ValueError, NotImplementedError, OSError, MatReadError, zlib.error) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{file} is not a file of SVHN: {reason}", "take the cropped digits, format 2") from None


def _classes(path: Path, part: str) -> Pictures:
    """Return the pictures of a folder with a folder for each class, such as CINIC-10; all need the same size."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise InputError(f"Pillow is not installed, and {path} holds pictures", "pip install pillow") from None

    classes = sorted(folder.name for folder in (path / "train").iterdir() if folder.is_dir())
    pictures, labels = [], []
    for label, name in enumerate(classes):
        for file in sorted(file for file in (path / part / name).glob("*") if file.is_file()):
            try:
                with Image.open(file) as image:
                    pictures.append(np.asarray(image.convert("RGB"), np.uint8))
            except (UnidentifiedImageError, OSError) as error:
                raise InputError(f"{file} is not a picture: {error}", "take it out of the folder") from None
            labels.append(label)
    if not pictures:
        raise InputError(f"{path / part} has no pictures", "it needs a folder for each class, as CINIC-10 has")
    sizes = {picture.shape for picture in pictures}
    if len(sizes) > 1:
        listed = ", ".join(f"{width}x{height}" for height, width, _ in sorted(sizes)[:4])
        raise InputError(f"the pictures in {path / part} have several sizes: {listed}", "scale them to one")
    return np.stack(pictures).transpose(0, 3, 1, 2), np.array(labels, np.int64)


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror or error}", "check the path") from None
