"""From what the user wrote to a workload, and two lines for everything that is none."""

import json
import struct
import warnings
import zipfile
from pathlib import Path

import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_graphs import model, node

from edgetune.errors import InputError
from edgetune.workloads.foreign_files import KINDS, foreign_kind
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


def test_the_hash_follows_the_external_weights_size(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(small_model(), path, save_as_external_data=True, location="net.data", size_threshold=0)
    first = resolve(str(path)).sha256
    with (tmp_path / "net.data").open("ab") as stream:
        stream.write(b"more")
    assert resolve(str(path)).sha256 != first


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


def network():
    return torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())


def torchscript(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # people have such files
        torch.jit.trace(network(), torch.zeros(1, 4)).save(str(path))


def exported(path):
    torch.export.save(torch.export.export(network(), (torch.zeros(1, 4),)), str(path))


def checkpoint(path):
    torch.save(network().state_dict(), path)


def old_checkpoint(path):
    torch.save(network().state_dict(), path, _use_new_zipfile_serialization=False)


def safetensors(path):
    head = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head + b"\0" * 4)


def keras(path):
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("metadata.json", "config.json", "model.weights.h5"):
            archive.writestr(name, "{}")


def content(data):
    return lambda path: path.write_bytes(data)


def folder(*names):
    def make(path):
        path.mkdir()
        for name in names:
            (path / name).touch()

    return make


FILES = [
    ("net.bin", exported, "torch.export", "give its name that ending: .pt2"),
    ("net.pt", torchscript, "TorchScript", "torch.onnx.export(torch.jit.load("),
    ("net.pt", checkpoint, "PyTorch checkpoint", "torch.onnx.export(model"),
    ("net.pth", old_checkpoint, "PyTorch checkpoint", "torch.onnx.export(model"),
    ("net.bin", content(b"ptrt\0\0\0\0" + bytes(64)), "TensorRT engine", "give its name that ending: .engine"),
    ("net.tflite", content(b"\x1c\0\0\0TFL3" + bytes(64)), "TensorFlow Lite", "tf2onnx.convert --tflite"),
    ("net.ort", content(b"\x1c\0\0\0ORTM" + bytes(64)), "ONNX Runtime's own format", "ONNX file"),
    ("net.gguf", content(b"GGUF\3\0\0\0" + bytes(64)), "llama.cpp", "edgetune roofline llm:config.json"),
    ("net.h5", content(b"\x89HDF\r\n\x1a\n" + bytes(64)), "Keras", "format='onnx'"),
    ("net.keras", keras, "Keras", "format='onnx'"),
    ("net.safetensors", safetensors, "weights, and no graph", "torch.onnx.export(model"),
    ("sweep.parquet", content(b"PAR1" + bytes(64)), "table, not an ONNX model", "--device recorded:"),
    ("saved", folder("saved_model.pb", "variables"), "TensorFlow model", "tf2onnx.convert --saved-model"),
    ("llama", folder("config.json", "model.safetensors"), "Hugging Face", "optimum-cli export onnx"),
]
IDS = [f"{name}-{what}" for name, _, what, _ in FILES]


@pytest.mark.parametrize(("name", "make", "what", "command"), FILES, ids=IDS)
@pytest.mark.parametrize("renamed", [False, True])
def test_a_file_is_told_by_its_content_whatever_its_name(tmp_path, name, make, what, command, *, renamed):
    path = tmp_path / ("mystery.bin" if renamed else name)
    make(path)
    with pytest.raises(InputError) as caught:
        resolve(str(path))
    error = caught.value
    assert what in error.message
    assert command in error.hint
    assert "cut short" not in error.message
    assert "\n" not in error.message + error.hint


ENDINGS = sorted(ending for kind in KINDS for ending in kind.endings)


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_ending_tells_what_the_content_does_not(tmp_path, ending):
    path = tmp_path / f"net{ending.upper()}"
    path.write_bytes(b"\xff\xfe nothing known")
    assert foreign_kind(path, by_name=False) is None
    with pytest.raises(InputError) as caught:
        resolve(str(path))
    assert "cut short" not in caught.value.message
    assert caught.value.message.startswith(f"{path} is a")


@pytest.mark.parametrize("content", [b"", b"PK", b"PK\x03\x04" + bytes(20), b"{", b"\x80\x02", bytes(8) + b"{"])
def test_what_is_of_no_kind_is_none(tmp_path, content):
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    assert foreign_kind(path, by_name=True) is None
    assert foreign_kind(tmp_path / "absent", by_name=False) is None


SCRIPTS = {
    "a main function": "def main():\n    raise SystemExit('ran')\n\nif __name__ == '__main__':\n    main()\n",
    "code at its top": "open('ran', 'w').write('x')\nfor epoch in range(10):\n    pass\n",
    "another make": "class Model:\n    def build(self):\n        return 1\n\nmakes = 3\n",
}


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS)
def test_an_ordinary_script_is_refused_without_being_run(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(text)
    with pytest.raises(InputError, match=r"train\.py does not define make\(batch_size\): it is a script") as caught:
        resolve("train.py")
    assert "examples/train_tiny.py" in caught.value.hint
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "text",
    [
        "def make(batch_size):\n    return lambda: 1\n",
        "make = lambda batch_size: (lambda: 1)\n",
        "from elsewhere import make\n",
        "from elsewhere import build as make\n",
        "from elsewhere import *\n",
        "if True:\n    def make(batch_size):\n        return lambda: 1\n",
        "globals()['make'] = lambda batch_size: (lambda: 1)\n",
        "def make(:\n",
    ],
)
def test_a_file_that_may_define_make_is_let_pass(tmp_path, text):
    path = tmp_path / "train.py"
    path.write_text(text)
    assert resolve(str(path)).kind == "python"
