"""Models, training files and boards with hostile names and messages, as commands show them."""

from pathlib import Path

import pytest
from hostile import FILE_NAME, UNICODE, assert_harmless
from onnx import TensorProto, helper

from edgetune.testing.fake_board import make_board

TWIN = ("--device", "twin:orin-agx")


def network(path, *, op="Relu", domain=""):
    """Write a network every name of which is hostile."""
    shape = (f"dim{UNICODE}", 4)
    x, y = (helper.make_tensor_value_info(f"{name}{UNICODE}", TensorProto.FLOAT, shape) for name in "xy")
    node = helper.make_node(op, [x.name], [y.name], name=f"node{UNICODE}", domain=domain)
    graph = helper.make_graph([node], f"graph{UNICODE}", [x], [y], doc_string=UNICODE)
    opsets = [helper.make_opsetid("", 17)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name=f"producer{UNICODE}")
    Path(path).write_bytes(model.SerializeToString())
    return path


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    "line",
    [
        ("roofline", "ops", "MODEL"),
        ("roofline", "ops", "MODEL", "--by", "node"),
        ("roofline", "MODEL", *TWIN, "--dry-run"),
        ("profile", "MODEL", *TWIN, "--dry-run", "--verbose"),
        ("profile", "MODEL", "--device", "host", "--minibatches", "3", "-o", "p.parquet", "--verbose"),
        ("schedule", "prepare", "MODEL", "--dry-run"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize(("op", "domain"), [("Relu", ""), (f"op{UNICODE}", f"domain{UNICODE}")], ids=["op", "unknown"])
def test_names_in_a_network_are_shown_harmlessly(edgetune_raw, line, op, domain):
    model = network("net.onnx", op=op, domain=domain)
    fixed = ("--dim", f"dim{UNICODE}=2") if line[0] != "schedule" else ()
    for more in ((), fixed):
        ended = edgetune_raw(*(word.replace("MODEL", model) for word in line), *more)
        assert ended.code in (0, 2, 5), ended.err
        assert_harmless(ended.out + ended.err)


@pytest.mark.parametrize("line", ["schedule prepare net.onnx", "schedule profile net.onnx -o s.parquet"])
def test_what_onnx_runtime_says_of_an_attribute_is_shown_escaped(shell, tmp_path, line):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 4, 4])
    scales = helper.make_tensor("s", TensorProto.FLOAT, [4], [1, 1, 1, 1])
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode=UNICODE)
    graph = helper.make_graph([node], "g", [x], [y], [scales])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    ended = shell(*line.split())
    assert ended.code == 2, ended.err
    assert "mode attribute is" in ended.err
    assert_harmless(ended.out + ended.err)


SCRIPTS = {
    "module": f"raise RuntimeError({UNICODE!r})",
    "make": f"def make(batch_size):\n    raise ValueError({UNICODE!r})",
    "step": f"def make(batch_size):\n    def step():\n        raise KeyError({UNICODE!r})\n    return step",
    "syntax": f"# {UNICODE.encode('ascii', 'ignore').decode().replace(chr(10), '').replace(chr(13), '')}\nx = = 1\n",
    "error type": f"def make(batch_size):\n    raise type({UNICODE!r}, (Exception,), {{}})('x')",
    "last words": f"import os\nos.write(2, {UNICODE!r}.encode() + bytes([255, 155]))\nos._exit(3)",
}  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_output_of_a_training_file_is_shown_escaped(edgetune_raw, script):
    name = f"train{FILE_NAME}.py"
    Path(name).write_text(script, encoding="utf-8")
    ended = edgetune_raw("profile", name, "--device", "host", "-o", "p.parquet", "--verbose", "--minibatches", "3")
    assert ended.code == 2, ended.err
    assert_harmless(ended.out + ended.err)


def test_modes_and_names_of_a_board_are_shown_harmlessly(edgetune_raw, tmp_path):
    board = make_board(tmp_path / "board", "jetson-nano", debugfs="unmounted")
    hostile = UNICODE.replace("\n", "").replace("\r", "").replace(" ", "")
    (conf,) = (path for path in board.root.rglob("nvpmodel*.conf") if path.is_file() and not path.is_symlink())
    conf.write_text(conf.read_text(encoding="utf-8").replace("NAME=5W", f"NAME=5W{hostile}"), encoding="utf-8")
    model = board.root / "proc/device-tree/model"
    model.chmod(0o644)  # as on a board, only root may write it
    model.write_bytes(model.read_bytes().rstrip(b"\0") + UNICODE.encode() + b"\xff\0")
    root = ("--root", str(board.root))
    lines = [
        ("device", "jetson", *root), ("device", "show", "jetson", *root, "--json"), ("doctor", *root),
        ("doctor", *root, "--json"), ("device", "modes", "jetson", f"5W{hostile}", *root),
        ("device", "set", "jetson", f"5W{hostile}", *root, "--dry-run"),
        ("device", "watch", "jetson", *root, "--count", "1"),
        ("device", "set", "jetson", f"9W{hostile}", *root),
    ]  # fmt: skip
    for line in lines:
        ended = edgetune_raw(*line)
        assert ended.code in (0, 2, 4), (line, ended.err)
        assert_harmless(ended.out + ended.err)
    assert any("\\u202e" in edgetune_raw(*line).out for line in lines[:4])


def test_source_code_in_messages_is_shown_harmlessly(edgetune_raw):
    pytest.importorskip("cuda.bindings")
    source = f'__global__ void k(float *x) {{ /* {UNICODE} */ asm volatile("{UNICODE}"); goto l; l: x[0] = 1; }}\n'
    Path("k.cu").write_text(source, encoding="utf-8")
    for more in ((), ("--explain",), ("--json",)):
        ended = edgetune_raw("schedule", "kernels", "transform", "k.cu", "-o", "out.ptx", *more)
        assert ended.code in (0, 2, 5), ended.err
        assert_harmless(ended.out + ended.err)
