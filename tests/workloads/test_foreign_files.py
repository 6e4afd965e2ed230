"""Files of networks that edgetune does not run are told apart by content, each with the command that helps."""

import json
import struct
import warnings
import zipfile

import onnx
import pytest
import torch
from onnx_graphs import model, node

from edgetune.errors import InputError
from edgetune.workloads.foreign_files import KINDS, foreign_kind
from edgetune.workloads.resolve import resolve


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


def test_an_onnx_file_is_one_whatever_its_ending(tmp_path):
    proto = model([node("MatMul", "x w", "y")], {"x": ("batch", 4)}, values={"w": [[1.0]] * 4})
    for ending in ENDINGS:
        path = tmp_path / f"net{ending}"
        onnx.save(proto, path)
        assert resolve(str(path)).kind == "onnx"


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
