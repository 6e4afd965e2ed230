"""Data sets of one's own: text, and folders of pictures."""

from pathlib import Path

import numpy as np
import pytest

from edgetune.errors import InputError
from edgetune.stages.profiling.convergence.datasets import DRAWN, load_dataset
from edgetune.stages.profiling.convergence.drawn_data import CHARACTERS, SEQUENCE, draw_shapes, in_sequences

PIXELS = np.random.default_rng(0).integers(0, 256, (12, 3, 32, 32)).astype(np.uint8)
LABELS = np.arange(12) % 10


def pictures(folder: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    for place in range(12):
        part = folder / ("train" if place < 8 else "test") / f"class{LABELS[place]}"
        part.mkdir(parents=True, exist_ok=True)
        image.fromarray(PIXELS[place].transpose(1, 2, 0)).save(part / f"{place:02}.png")
    for label in range(10):
        (folder / "train" / f"class{label}").mkdir(exist_ok=True)


def test_folders_of_classes_hold_pictures_and_labels(tmp_path):
    pictures(tmp_path)
    data = load_dataset(str(tmp_path))
    assert (data.x.shape, data.x_held_out.shape, data.classes) == ((8, 3, 32, 32), (4, 3, 32, 32), 10)
    assert data.x.dtype == np.float32
    assert len(data.sha256) == 64
    mean, deviation = PIXELS[:8].mean(), PIXELS[:8].std()
    for x, y, wanted in ((data.x, data.y, slice(0, 8)), (data.x_held_out, data.y_held_out, slice(8, 12))):
        order = np.argsort(LABELS[wanted], kind="stable")  # sorted by class
        assert np.array_equal(y, LABELS[wanted][order])
        assert np.allclose(x * deviation + mean, PIXELS[wanted][order], atol=1e-3)


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


def test_the_mean_image_of_a_label_shows_its_shape():
    """Noise averages out: a flat bar is brightest along the middle row, an upright one along the middle column."""
    x, y = draw_shapes(6000, seed=0)
    flat, upright = x[y == 6][:, 0].mean(0), x[y == 7][:, 0].mean(0)
    assert flat.sum(1).argmax() in (7, 8)
    assert upright.sum(0).argmax() in (7, 8)
    assert flat.sum(1).max() > 2 * flat.sum(0).max() / 1.5


def test_file_without_held_out_samples_is_split_once_and_for_all(tmp_path):
    x = np.arange(50, dtype=np.uint8).reshape(50, 1)
    np.savez(tmp_path / "mine.npz", x=x, y=np.arange(50) % 3)
    data, again = (load_dataset(str(tmp_path / "mine.npz")) for _ in range(2))
    assert (data.name, data.classes) == ("mine", 3)
    assert (len(data.x), len(data.x_held_out)) == (40, 10)
    assert np.array_equal(data.x, again.x)
    assert len(np.unique(np.concatenate([data.x, data.x_held_out]))) == 50
    assert len(data.sha256) == 64


def test_file_with_held_out_samples_keeps_them_apart(tmp_path):
    x = np.zeros((4, 2))
    np.savez(tmp_path / "f.npz", x=x, y=np.array([0, 1, 0, 1]), x_test=x[:2] + 1, y_test=np.array([5, 0]))
    data = load_dataset(str(tmp_path / "f.npz"))
    assert data.classes == 6
    assert np.array_equal(data.x_held_out, np.ones((2, 2)))
