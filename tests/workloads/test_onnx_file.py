"""Models of unknown origin: external weights stay inside the model's folder, or are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx_graphs import model, node

from edgetune.errors import InputError
from edgetune.workloads.onnx_file import load_model
from edgetune.workloads.resolve import resolve
from edgetune.workloads.workload import Workload

WEIGHT = np.arange(12, dtype=np.float32).reshape(4, 3)


def save_external(folder: Path, location: str = "net.data") -> Path:
    """Save a model whose weight is in ``net.data`` beside it, then say it is at ``location``."""
    folder.mkdir(exist_ok=True)
    proto = model([node("MatMul", "x w", "y")], {"x": ("batch", 4)}, values={"w": WEIGHT})
    path = folder / "net.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="net.data", size_threshold=0)
    proto = onnx.load(path, load_external_data=False)
    (entry,) = (item for item in proto.graph.initializer[0].external_data if item.key == "location")
    entry.value = location
    path.write_bytes(proto.SerializeToString())
    return path


def load(path: Path, weights: bool = True) -> onnx.ModelProto:
    return load_model(Workload(str(path), path.stem, "onnx", path, ""), weights=weights)


def test_external_weights_beside_the_model_are_read(tmp_path: Path) -> None:
    proto = load(save_external(tmp_path))
    np.testing.assert_array_equal(numpy_helper.to_array(proto.graph.initializer[0]), WEIGHT)


def test_without_weights_they_are_checked_and_not_read(tmp_path: Path) -> None:
    proto = load(save_external(tmp_path), weights=False)
    assert not proto.graph.initializer[0].raw_data


def test_a_subfolder_is_inside(tmp_path: Path) -> None:
    path = save_external(tmp_path, "weights/net.data")
    (tmp_path / "weights").mkdir()
    (tmp_path / "net.data").rename(tmp_path / "weights" / "net.data")
    assert load(path).graph.initializer[0].raw_data


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("location", ["../secret", "sub/../../secret", "ABSOLUTE"])
def test_outside_the_folder_is_refused(tmp_path: Path, location: str, weights: bool) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"\0" * 1000)
    location = str(secret) if location == "ABSOLUTE" else location
    path = save_external(tmp_path / "model", location)
    with pytest.raises(InputError, match="outside the model's folder") as caught:
        load(path, weights)
    assert "'w'" in caught.value.message
    assert location in caught.value.message


@pytest.mark.parametrize("linked", ["file", "folder"])
def test_a_symbolic_link_out_of_the_folder_is_refused(tmp_path: Path, linked: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"\0" * 1000)
    path = save_external(tmp_path / "model", "link" if linked == "file" else "link/secret")
    (tmp_path / "model" / "link").symlink_to(outside / "secret" if linked == "file" else outside)
    with pytest.raises(InputError, match="outside the model's folder"):
        load(path)


def test_weights_behind_links_in_a_circle_or_an_endless_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    for location in ("circle", "x" * 300):
        with pytest.raises(InputError, match=r"external weights of 'w' (are missing|cannot be reached)"):
            load(save_external(tmp_path, location))


def test_a_model_folder_reached_through_a_link_is_fine(tmp_path: Path) -> None:
    save_external(tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert load(tmp_path / "link" / "net.onnx").graph.initializer[0].raw_data


def test_a_missing_external_file_is_named_already_by_resolve(tmp_path: Path) -> None:
    path = save_external(tmp_path)
    (tmp_path / "net.data").unlink()
    with pytest.raises(InputError, match=r"'w' are missing: .*net\.data"):
        resolve(str(path))


def test_an_external_file_cut_short(tmp_path: Path) -> None:
    path = save_external(tmp_path)
    (tmp_path / "net.data").write_bytes(b"\0" * 47)
    with pytest.raises(InputError, match=r"cut short: .* has 47 bytes, 48 are needed"):
        load(path)


def test_a_length_too_small_for_the_shape_does_not_hide_a_short_file(tmp_path: Path) -> None:
    path = save_external(tmp_path)
    proto = onnx.load(path, load_external_data=False)
    for item in proto.graph.initializer[0].external_data:
        if item.key == "length":
            item.value = "4"
    path.write_bytes(proto.SerializeToString())
    (tmp_path / "net.data").write_bytes(b"\0" * 10)
    with pytest.raises(InputError, match="48 are needed"):
        load(path)


@pytest.mark.parametrize(("key", "value"), [("offset", "-4"), ("length", "many"), ("location", "")])
def test_malformed_entries(tmp_path: Path, key: str, value: str) -> None:
    path = save_external(tmp_path)
    proto = onnx.load(path, load_external_data=False)
    for item in proto.graph.initializer[0].external_data:
        if item.key == key:
            item.value = value
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(InputError, match="no valid location, offset or length"):
        load(path)


def test_external_tensors_in_attributes_and_branches_are_checked(tmp_path: Path) -> None:
    hidden = onnx.TensorProto(name="hidden", dims=[2], data_type=1, data_location=onnx.TensorProto.EXTERNAL)
    hidden.external_data.add(key="location", value="../secret")
    branch = onnx.helper.make_graph(
        [onnx.helper.make_node("Constant", [], ["z"], value=hidden)],
        "b",
        [],
        [onnx.helper.make_tensor_value_info("z", 1, [2])],
    )
    proto = model(
        [node("If", "flag", "y", then_branch=branch, else_branch=branch)], {"x": (1,)}, values={"flag": np.array(True)}
    )
    path = tmp_path / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(InputError, match="'hidden' lie outside"):
        load(path)
