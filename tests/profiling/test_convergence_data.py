"""What proxies are trained on: the drawn sets are the same everywhere, and bad files are told in two lines."""

import numpy as np
import pytest

from edgetune.errors import InputError
from edgetune.stages.profiling.convergence.datasets import load_dataset
from edgetune.stages.profiling.convergence.drawn_images import draw_shapes


def test_drawn_images_follow_from_the_seed_and_have_every_label():
    x, y = draw_shapes(200, seed=3)
    again, labels = draw_shapes(200, seed=3)
    other, _ = draw_shapes(200, seed=4)
    assert np.array_equal(x, again)
    assert np.array_equal(y, labels)
    assert not np.array_equal(x, other)
    assert x.shape == (200, 1, 16, 16)
    assert set(y) == set(range(10))
    assert np.isfinite(x).all()


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


GOOD = {"x": np.zeros((4, 2)), "y": np.array([0, 1, 0, 1])}
BAD = {
    "no x": ({"y": GOOD["y"]}, "has no array x"),
    "no y": ({"x": GOOD["x"]}, "has no array y"),
    "lengths": ({**GOOD, "x": np.zeros((3, 2))}, "x is 3x2 and y is 4"),
    "labels of two columns": ({**GOOD, "y": np.zeros((4, 2), int)}, "x is 4x2 and y is 4x2"),
    "NaN": ({**GOOD, "x": np.array([[0, 0], [0, np.nan], [0, 0], [0, 0]])}, "NaN or infinite value in sample 1"),
    "labels that are no numbers": ({**GOOD, "y": np.array(list("abab"))}, "y of <U1"),
    "labels with fractions": ({**GOOD, "y": np.array([0.0, 1, 0, 1])}, "y of float64"),
    "negative labels": ({**GOOD, "y": np.array([0, -1, 0, 1])}, "reaches from -1 to 1"),
    "one sample": ({"x": np.zeros((1, 2)), "y": np.array([0])}, "x has 1 samples"),
    "no y_test": ({**GOOD, "x_test": GOOD["x"]}, "has no array y_test"),
    "shapes": ({**GOOD, "x_test": np.zeros((4, 3)), "y_test": GOOD["y"]}, "samples of x are 2, those of x_test 3"),
    "objects": ({**GOOD, "x": np.array([{}, {}, {}, {}])}, "not a .npz file of plain arrays"),
}


@pytest.mark.parametrize("case", BAD)
def test_files_that_are_no_data_set(tmp_path, case):
    arrays, message = BAD[case]
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(InputError) as caught:
        load_dataset(str(tmp_path / "bad.npz"))
    assert message in caught.value.message
    assert caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"PK\x03\x04 cut short", "not a .npz file"), (b"", "not a .npz file"), (None, "cannot read")],
)
def test_files_that_are_none(tmp_path, content, message):
    path = tmp_path / "bad.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_dataset(str(path))


def test_name_of_no_data_set():
    with pytest.raises(InputError, match="there is no data set 'digits'") as caught:
        load_dataset("digits")
    assert "shapes, words" in caught.value.hint
