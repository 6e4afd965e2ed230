"""From what the user wrote to a workload, and two lines for everything that is none."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_graphs import model, node

from edgetune.errors import InputError
from edgetune.workloads.resolve import names_path, resolve


def small_model() -> onnx.ModelProto:
    return model([node("MatMul", "x w", "y")], {"x": ("batch", 4)}, values={"w": [[1.0]] * 4})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    onnx.save(small_model(), path)
    return path


def assert_two_lines(error: InputError) -> None:
    assert error.message
    assert error.hint
    assert "\n" not in error.message + error.hint
    assert error.exit_code == 2


def test_the_suffix_does_not_matter_the_content_does(file: Path) -> None:
    other = file.rename(file.with_suffix(".model"))
    assert resolve(str(other)).kind == "onnx"


def test_the_hash_follows_the_content_and_not_the_name(file: Path, tmp_path: Path) -> None:
    first = resolve(str(file)).sha256
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(file.read_bytes())
    assert resolve(str(copy)).sha256 == first
    onnx.save(model([node("Relu", "x", "y")], {"x": (1, 4)}), file)
    assert resolve(str(file)).sha256 != first


def test_the_hash_follows_the_external_weights_size(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(small_model(), path, save_as_external_data=True, location="net.data", size_threshold=0)
    first = resolve(str(path)).sha256
    with (tmp_path / "net.data").open("ab") as stream:
        stream.write(b"more")
    assert resolve(str(path)).sha256 != first


def test_a_python_file_is_hashed_and_not_run(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("raise SystemExit('must not be run')\ndef make(batch_size): ...\n")
    workload = resolve(str(path))
    assert (workload.kind, workload.name) == ("python", "train")


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("zoo:train.py", "there is no network 'train.py' in the zoo"),
        ("kernel:relu.onnx", "there is no kernel 'relu.onnx'"),
        ("llm:config.onnx", "cannot read config.onnx"),
    ],
)
def test_a_prefix_counts_and_not_the_ending_behind_it(reference: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        resolve(reference)
    assert not names_path(reference)
    assert names_path(f"./{reference}")


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_a_truncated_or_damaged_model_is_refused_or_read_but_never_a_traceback(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(small_model().SerializeToString())
    cut = data.draw(st.integers(0, len(content)))
    for _ in range(data.draw(st.integers(0, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "net.onnx"
    path.write_bytes(bytes(content[:cut]))
    try:
        assert resolve(str(path)).kind == "onnx"
    except InputError as error:
        assert_two_lines(error)


@pytest.mark.parametrize(
    ("place", "name"),
    [("det/1/model.onnx", "det"), ("cls/12/model.onnx", "cls"), ("det/model.onnx", "model"), ("det/1/net.onnx", "net")],
)
def test_a_version_of_a_model_is_named_by_the_folder_of_the_model(tmp_path: Path, place: str, name: str) -> None:
    (tmp_path / place).parent.mkdir(parents=True)
    onnx.save(small_model(), tmp_path / place)
    assert resolve(str(tmp_path / place)).name == name
