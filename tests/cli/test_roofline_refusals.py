"""Models, peaks and precisions that ``edgetune roofline`` cannot use: two lines, the documented code, no file."""

import re

import onnx
import pytest
from command_line import assert_two_lines
from onnx import TensorProto, helper

from edgetune.artifacts.io import read
from edgetune.artifacts.roofline import Roofline

TWIN = ("--device", "twin:orin-agx")


@pytest.fixture(scope="module")
def peaks(tmp_path_factory):
    """The twin's peaks, measured once."""
    from edgetune.cli.main import run

    file = tmp_path_factory.mktemp("peaks") / "peaks.yaml"
    assert run(["roofline", *TWIN, "--quick", "-o", str(file), "--quiet", "--json"]) == 0
    return file


def save(path, nodes, *, domains=(), shape=("batch", 4)):
    """A network from ``x`` to ``y`` of these operators, in one chain: (type, domain)."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    names = ["x", *(f"t{index}" for index in range(1, len(nodes))), "y"]
    chain = [
        helper.make_node(op, [names[index]], [names[index + 1]], domain=domain)
        for index, (op, domain) in enumerate(nodes)
    ]
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(domain, 1) for domain in domains)]
    model = helper.make_model(helper.make_graph(chain, "net", *([end] for end in ends)), opset_imports=opsets)
    model.ir_version = 8
    path.write_bytes(model.SerializeToString())
    return str(path)


# Networks

RELU = ("Relu", "")


def test_a_dimension_that_depends_on_values_is_that_of_a_run(edgetune, tmp_path):
    nodes = [
        helper.make_node("NonZero", ["x"], ["found"]), helper.make_node("Cast", ["found"], ["y"], to=TensorProto.FLOAT),
    ]  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, None])
    model = helper.make_model(
        helper.make_graph(nodes, "net", [x], [y]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnx.save(model, tmp_path / "net.onnx")
    ended = edgetune("roofline", "ops", str(tmp_path / "net.onnx"))
    assert ended.code == 0
    assert re.search(r"unmodelled +0", ended.out)


@pytest.mark.parametrize("domain", ["", "elsewhere"])
def test_an_unknown_operator_is_in_the_ledger_named_and_strict_refuses(edgetune, peaks, tmp_path, domain):
    model = save(tmp_path / "net.onnx", [RELU, ("Frob", domain)], domains=[domain] if domain else [])
    table = edgetune("roofline", "ops", model)
    assert table.code == 0
    assert re.search(r"unmodelled +1 +50\.0% +Frob", table.out)
    strict = edgetune("roofline", "ops", model, "--strict")
    assert_two_lines(strict, 2)
    placed = edgetune("roofline", model, *TWIN, "--peaks", str(peaks))
    assert placed.code == 0


@pytest.mark.parametrize("outputs", [1], ids=["input is output", "nothing at all"])
def test_an_empty_graph(edgetune, peaks, tmp_path, outputs):
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])][:outputs]
    model = helper.make_model(helper.make_graph([], "net", ends, ends), opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "net.onnx")
    for asked in (("ops", str(tmp_path / "net.onnx")), (str(tmp_path / "net.onnx"), *TWIN, "--peaks", str(peaks))):
        ended = edgetune("roofline", *asked)
        assert_two_lines(ended, 2)


# Peaks


@pytest.mark.parametrize("name", ["matmul"])
def test_a_single_kernel_is_no_roofline(edgetune, tmp_path, monkeypatch, name):
    from edgetune.workflows.roofline import peaks
    from edgetune.workloads.kernels import BenchmarkKernel

    monkeypatch.setattr(peaks, "plan_kernels", lambda *_, **__: [BenchmarkKernel.square(name, 4096, "tf32")])
    ended = edgetune("roofline", *TWIN, "--quiet", "-o", str(tmp_path / "r.yaml"))
    assert_two_lines(ended, 2)
    assert not (tmp_path / "r.yaml").exists()


def test_without_a_power_sensor_time_is_drawn_and_energy_is_absent_with_its_reason(edgetune, tmp_path, monkeypatch):
    from dataclasses import replace

    from edgetune.devices import discover
    from edgetune.devices.capabilities import Absent

    opened = discover.open_device
    monkeypatch.setattr(discover, "open_device", lambda *a, **k: replace(opened(*a, **k), power=Absent("no sensor")))
    file, plot = tmp_path / "r.yaml", tmp_path / "r.svg"
    ended = edgetune("roofline", "zoo:squeezenet", *TWIN, "--quick", "-o", str(file), "--plot", str(plot))
    assert ended.code == 0, ended.err
    (roof,) = read(Roofline, str(file)).roofs
    assert roof.flops_per_s > 0
    assert (roof.static_w, roof.flop_j, roof.byte_j) == (None, None, None)
    assert b"<svg" in plot.read_bytes()
    assert_two_lines(edgetune("roofline", "zoo:squeezenet", *TWIN, "--tune", "5%"), 2)


# Precisions


@pytest.mark.parametrize(
    "words",
    [("kernel:matmul:256", "host", "fp16"), ("zoo:squeezenet", "twin:orin-agx", "fp8")],
)
def test_a_precision_that_cannot_be_measured_so(edgetune, tmp_path, words):
    model, device, precision = words
    asked = ("profile", model, "-t", "infer", "-d", device, "--precision", precision, "-o", str(tmp_path / "p.parquet"))
    ended = edgetune(*asked, "--quiet")
    assert_two_lines(ended, 2)


def test_fp32_with_and_without_tf32(edgetune, tmp_path):
    """TF32 is what FP32 networks multiply in on tensor cores; named beside it, FP32 is the other one."""
    file = tmp_path / "r.yaml"
    assert edgetune("roofline", *TWIN, "--quick", "--precision", "fp32", "-o", str(file)).code == 0
    assert [roof.precision for roof in read(Roofline, str(file)).roofs] == ["tf32"]
    assert edgetune("roofline", *TWIN, "--quick", "--precision", "fp32,tf32", "-o", str(file)).code == 0
    without, with_tf32 = read(Roofline, str(file)).roofs
    assert (without.precision, with_tf32.precision) == ("fp32", "tf32")
    assert without.flops_per_s < with_tf32.flops_per_s / 2


def test_all_open_dimensions_are_refused_at_once_with_a_hint_that_works(edgetune, tmp_path):
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, "height", "width"])
    mask = helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["batch", 1, "height", "width"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Mul", ["image", "mask"], ["y"])], "net", [image, mask], [y])
    model = str(tmp_path / "net.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    ended = edgetune("roofline", "ops", model)
    assert_two_lines(ended, 2)
    words = re.findall(r"--dim \S+=\d+", ended.lines[1])
    assert words == ["--dim height=224", "--dim width=224"]
    assert edgetune("roofline", "ops", model, *" ".join(words).split()).code == 0
