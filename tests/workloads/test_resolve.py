"""From what the user wrote to a workload, and two lines for everything that is none."""

from __future__ import annotations

import os
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


def test_an_onnx_file(file: Path) -> None:
    workload = resolve(str(file))
    assert (workload.kind, workload.name, workload.path) == ("onnx", "net", file)
    assert len(workload.sha256) == 64


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


def test_a_zoo_network_has_a_stable_hash() -> None:
    workload = resolve("zoo:resnet18")
    assert (workload.kind, workload.name, workload.path) == ("zoo", "resnet18", None)
    assert workload.sha256 == resolve("zoo:resnet18").sha256 != resolve("zoo:resnet50").sha256


def test_a_misspelt_zoo_network_is_suggested_and_all_are_listed() -> None:
    with pytest.raises(InputError, match="'resnet81'") as caught:
        resolve("zoo:resnet81")
    assert "zoo:resnet18" in caught.value.hint
    assert "bert_large" in caught.value.hint
    assert_two_lines(caught.value)


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


def test_a_bare_zoo_name_is_pointed_to_the_zoo() -> None:
    with pytest.raises(InputError, match="no file resnet18") as caught:
        resolve("resnet18")
    assert "zoo:resnet18" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.onnx", b"", "is empty"),
        ("empty.py", b"", "is empty"),
        ("text.onnx", b"this is a note about a model\n", "not an ONNX model"),
        ("garbage.onnx", bytes(range(256)) * 8, "not an ONNX model"),
        ("zeros.onnx", b"\0" * 64, "not an ONNX model"),
        ("parquet.onnx", b"PAR1" + b"\0" * 64, "not an ONNX model"),
        ("html", b"<!doctype html><html></html>", "not an ONNX model"),
    ],
)
def test_foreign_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        resolve(str(path))
    assert str(path) in caught.value.message
    assert_two_lines(caught.value)


def test_a_model_without_operators(tmp_path: Path) -> None:
    proto = small_model()
    del proto.graph.node[:]
    path = tmp_path / "none.onnx"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(InputError, match="without operators"):
        resolve(str(path))


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file"):
        resolve(str(tmp_path / "absent.onnx"))
    with pytest.raises(InputError, match="is a folder"):
        resolve(str(tmp_path))
    with pytest.raises(InputError, match=r"cannot read|no file"):
        resolve("a\0b.onnx")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file(file: Path) -> None:
    file.chmod(0)
    with pytest.raises(InputError, match="Permission denied"):
        resolve(str(file))


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


@given(cut=st.integers(0, 10_000))
@settings(deadline=None, max_examples=200)
def test_a_truncated_model_is_refused(cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    # The version of the one operator set is the last field written, so nothing short of the whole file is a model.
    whole = small_model()
    del whole.opset_import[1:]
    content = whole.SerializeToString()
    path = tmp_path_factory.mktemp("cut") / "net.onnx"
    path.write_bytes(content[: cut % len(content)])
    with pytest.raises(InputError):
        resolve(str(path))


@pytest.mark.parametrize(
    ("place", "name"),
    [("det/1/model.onnx", "det"), ("cls/12/model.onnx", "cls"), ("det/model.onnx", "model"), ("det/1/net.onnx", "net")],
)
def test_a_version_of_a_model_is_named_by_the_folder_of_the_model(tmp_path: Path, place: str, name: str) -> None:
    (tmp_path / place).parent.mkdir(parents=True)
    onnx.save(small_model(), tmp_path / place)
    assert resolve(str(tmp_path / place)).name == name


def test_an_error_of_a_rewritten_network_names_the_rewriting(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    from edgetune.workloads.ort_session import open_session
    from edgetune.workloads.workload import RunOptions

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no kernel")

    monkeypatch.setattr(onnxruntime, "InferenceSession", fail)
    rewritten = " as edgetune rewrote it for batch size 1"
    for reference, step in ((str(file), ""), ("zoo:squeezenet", rewritten)):
        with pytest.raises(InputError) as found:
            open_session(resolve(reference), 1, RunOptions(threads=1))
        assert found.value.message == f"ONNX Runtime cannot load {reference}{step}: no kernel"
        assert_two_lines(found.value)
