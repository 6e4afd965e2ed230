"""Data sets of one's own: text, and folders as CIFAR-10, SVHN and CINIC-10 are published."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from edgetune.errors import InputError
from edgetune.stages.profiling.convergence.datasets import DRAWN, load_dataset
from edgetune.stages.profiling.convergence.image_folders import reader_of
from edgetune.stages.profiling.convergence.text import CHARACTERS, SEQUENCE, in_sequences

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 3, 32, 32)).astype(np.uint8)
LABELS = np.arange(12) % 10


def cifar_binary(folder: Path) -> None:
    records = np.concatenate([LABELS[:, None].astype(np.uint8), PIXELS.reshape(12, -1)], axis=1)
    for number in (1, 2):
        (folder / f"data_batch_{number}.bin").write_bytes(records[(number - 1) * 4 : number * 4].tobytes())
    (folder / "test_batch.bin").write_bytes(records[8:].tobytes())


def cifar_pickled(folder: Path) -> None:
    for name, part in (("data_batch_1", slice(0, 4)), ("data_batch_2", slice(4, 8)), ("test_batch", slice(8, 12))):
        held = {b"data": PIXELS[part].reshape(4, -1), b"labels": LABELS[part].tolist(), b"batch_label": b"training"}
        (folder / name).write_bytes(pickle.dumps(held, protocol=2))


def svhn(folder: Path) -> None:
    from scipy.io import savemat

    digits = np.where(LABELS == 0, 10, LABELS)  # as published: the digit 0 has the label 10
    for name, part in (("train", slice(0, 8)), ("test", slice(8, 12))):
        savemat(folder / f"{name}_32x32.mat", {"X": PIXELS[part].transpose(2, 3, 1, 0), "y": digits[part, None]})


def cinic(folder: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for place in range(12):
        part = folder / ("train" if place < 8 else "test") / f"class{LABELS[place]}"
        part.mkdir(parents=True, exist_ok=True)
        image.fromarray(PIXELS[place].transpose(1, 2, 0)).save(part / f"{place:02}.png")
    for label in range(10):
        (folder / "train" / f"class{label}").mkdir(exist_ok=True)


@pytest.mark.parametrize("publish", [cifar_binary, cifar_pickled, svhn, cinic])
def test_folders_as_published_hold_the_same_pictures_and_labels(tmp_path, publish):
    publish(tmp_path)
    read = reader_of(tmp_path)
    assert read is not None
    for part, wanted in (("train", slice(0, 8)), ("test", slice(8, 12))):
        pixels, labels = read(tmp_path, part)
        order = np.argsort(LABELS[wanted], kind="stable") if publish is cinic else slice(None)  # sorted by class
        assert np.array_equal(labels, LABELS[wanted][order])
        assert np.array_equal(pixels, PIXELS[wanted][order])
    data = load_dataset(str(tmp_path))
    assert (data.x.shape, data.x_held_out.shape, data.classes) == ((8, 3, 32, 32), (4, 3, 32, 32), 10)
    assert data.x.dtype == np.float32
    assert len(data.sha256) == 64


def test_a_share_of_a_data_set_is_split_four_to_one_always_alike(tmp_path):
    cifar_binary(tmp_path)
    data, again = (load_dataset(str(tmp_path), samples=5) for _ in range(2))
    assert (len(data.x), len(data.x_held_out)) == (4, 1)
    assert np.array_equal(data.x, again.x)
    with pytest.raises(InputError) as caught:
        load_dataset(str(tmp_path), samples=9)
    assert caught.value.hint == "--dataset-samples 8"


class Hostile:
    """Pickles as a call of a function."""

    def __reduce__(self):
        return os.system, ("true",)


@pytest.mark.parametrize(
    "content", [pickle.dumps(Hostile()), b"", b"no pickle", pickle.dumps({b"data": 3}), pickle.dumps([])]
)
def test_a_pickle_that_is_no_plain_data_is_refused(tmp_path, content):
    (tmp_path / "data_batch_1").write_bytes(content)
    with pytest.raises(InputError, match=r"data_batch_1 is not a file of CIFAR-10"):
        load_dataset(str(tmp_path))


def test_folders_that_are_none(tmp_path):
    with pytest.raises(InputError, match="is no data set that is known"):
        load_dataset(str(tmp_path))
    (tmp_path / "data_batch_1.bin").write_bytes(b"short")
    with pytest.raises(InputError, match="has 5 bytes"):
        load_dataset(str(tmp_path))
    (tmp_path / "data_batch_1.bin").unlink()
    (tmp_path / "train_32x32.mat").write_bytes(b"short")
    with pytest.raises(InputError, match="is not a file of SVHN"):
        load_dataset(str(tmp_path))


def test_classes_of_pictures_need_one_size_and_pictures(tmp_path):
    image = pytest.importorskip("PIL.Image")
    cinic(tmp_path)
    image.new("RGB", (8, 9)).save(tmp_path / "train" / "class1" / "other.png")
    with pytest.raises(InputError, match="several sizes: 8x9, 32x32"):
        load_dataset(str(tmp_path))
    (tmp_path / "train" / "class1" / "other.png").write_text("no picture")
    with pytest.raises(InputError, match=r"other\.png is not a picture"):
        load_dataset(str(tmp_path))


def test_text_is_characters_and_the_next_ones(tmp_path):
    words = "The quick brown fox \u00e9 jumps over the lazy dog. " * 40
    (tmp_path / "a.txt").write_text(words[:1000], encoding="utf-8")
    (tmp_path / "b.txt").write_text(words[1000:], encoding="utf-8")
    data = load_dataset(str(tmp_path), tokens=True)
    assert data.x.dtype.kind == "i"
    assert data.x.shape[1] == SEQUENCE
    kept = (words[:1000] + "\n" + words[1000:]).replace("\u00e9", "")
    read = "".join(CHARACTERS[token] for token in data.x.reshape(-1))
    assert kept.startswith(read)
    assert np.array_equal(data.x.reshape(-1)[1:], data.y.reshape(-1)[:-1])
    assert data.x_held_out.size / (data.x.size + data.x_held_out.size) == pytest.approx(0.1, abs=0.04)
    with pytest.raises(InputError, match="takes no characters"):
        load_dataset(str(tmp_path))
    (tmp_path / "b.txt").unlink()
    (tmp_path / "a.txt").write_text("too short")
    with pytest.raises(InputError, match="9 characters of English text"):
        load_dataset(str(tmp_path / "a.txt"), tokens=True)


@pytest.mark.parametrize("name", [name for name, drawn in DRAWN.items() if drawn.is_text])
def test_drawn_text_follows_from_the_seed(name):
    draw = DRAWN[name].draw
    (x, y), again, other = draw(50, 0), draw(50, 0), draw(50, 1)
    assert x.shape == y.shape == (50, 32)
    assert np.array_equal(x, again[0])
    assert not np.array_equal(x, other[0])
    assert np.array_equal(x.reshape(-1)[1:], y.reshape(-1)[:-1])


def test_whole_numbers_are_tokens_only_for_a_network_that_takes_tokens(tmp_path):
    x, y = in_sequences(np.arange(81) % 7, 8)
    np.savez(tmp_path / "t.npz", x=x, y=y)
    data = load_dataset(str(tmp_path / "t.npz"), tokens=True)
    assert (data.x.dtype, data.vocabulary, data.classes, len(data.x)) == (np.int64, 7, 7, 8)
    np.savez(tmp_path / "t.npz", x=x, y=y[:, 0])
    assert load_dataset(str(tmp_path / "t.npz")).x.dtype == np.float32
    np.savez(tmp_path / "t.npz", x=x / 2, y=y[:, 0])
    with pytest.raises(InputError, match="the network takes tokens"):
        load_dataset(str(tmp_path / "t.npz"), tokens=True)
