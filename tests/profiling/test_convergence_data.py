"""What proxies are trained on: the drawn sets are the same everywhere, and bad files are told in two lines."""

import numpy as np
import pytest

from edgetune.stages.profiling.convergence.datasets import load_dataset
from edgetune.stages.profiling.convergence.drawn_images import draw_shapes


def test_the_mean_image_of_a_label_shows_its_shape():
    """Noise averages out: a flat bar is brightest along the middle row, an upright one along the middle column."""
    x, y = draw_shapes(6000, seed=0)
    flat, upright = x[y == 6][:, 0].mean(0), x[y == 7][:, 0].mean(0)
    assert flat.sum(1).argmax() in (7, 8)
    assert upright.sum(0).argmax() in (7, 8)
    assert flat.sum(1).max() > 2 * flat.sum(0).max() / 1.5


def test_drawn_images_are_scaled_and_hold_samples_out():
    data = load_dataset("shapes")
    assert len(data.x) == len(data.y) == 4096
    assert len(data.x_held_out) == len(data.y_held_out) == 1024
    assert data.x.dtype == np.float32
    assert float(data.x.mean()) == pytest.approx(0, abs=1e-3)
    assert float(data.x.std()) == pytest.approx(1, abs=1e-3)
    assert data.sha256 is None


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
