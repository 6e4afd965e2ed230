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

FROB, RELU = ("Frob", "elsewhere"), ("Relu", "")


def test_an_open_dimension_names_the_tensor_and_the_option(edgetune, peaks, tmp_path):
    model = save(tmp_path / "net.onnx", [RELU], shape=("batch", "length"))
    for asked in (("ops", model), (model, *TWIN, "--peaks", str(peaks))):
        ended = edgetune("roofline", *asked)
        assert_two_lines(ended, 2)
        assert "input 'x' has an open dimension 'length' (axis 1)" in ended.err
        assert "--dim length=128" in ended.lines[1]
    assert edgetune("roofline", "ops", model, "--dim", "length=8").code == 0


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
    assert "those of one run" in " ".join(ended.out.split())


@pytest.mark.parametrize("domain", ["", "elsewhere"])
def test_an_unknown_operator_is_in_the_ledger_named_and_strict_refuses(edgetune, peaks, tmp_path, domain):
    model = save(tmp_path / "net.onnx", [RELU, ("Frob", domain)], domains=[domain] if domain else [])
    table = edgetune("roofline", "ops", model)
    assert table.code == 0
    assert re.search(r"unmodelled +1 +50\.0% +Frob", table.out)
    strict = edgetune("roofline", "ops", model, "--strict")
    assert_two_lines(strict, 2)
    assert "Frob" in strict.lines[0]
    placed = edgetune("roofline", model, *TWIN, "--peaks", str(peaks))
    assert placed.code == 0
    assert "Frob" in placed.out


def test_a_network_of_a_custom_domain_alone_has_nothing_to_place(edgetune, peaks, tmp_path):
    model = save(tmp_path / "net.onnx", [FROB], domains=["elsewhere"])
    assert "Frob" in edgetune("roofline", "ops", model).out
    ended = edgetune("roofline", model, *TWIN, "--peaks", str(peaks))
    assert_two_lines(ended, 2)
    assert "no operator with a known cost (Frob)" in ended.err


def test_a_domain_that_the_model_does_not_declare(edgetune, tmp_path):
    ended = edgetune("roofline", "ops", save(tmp_path / "net.onnx", [FROB]))
    assert_two_lines(ended, 2)
    assert "elsewhere" in ended.err


@pytest.mark.parametrize("outputs", [1, 0], ids=["input is output", "nothing at all"])
def test_an_empty_graph(edgetune, peaks, tmp_path, outputs):
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])][:outputs]
    model = helper.make_model(helper.make_graph([], "net", ends, ends), opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "net.onnx")
    for asked in (("ops", str(tmp_path / "net.onnx")), (str(tmp_path / "net.onnx"), *TWIN, "--peaks", str(peaks))):
        ended = edgetune("roofline", *asked)
        assert_two_lines(ended, 2)
        assert "without operators" in ended.err


def test_views_alone_cost_nothing_and_cannot_be_placed(edgetune, peaks, tmp_path):
    model = save(tmp_path / "net.onnx", [("Identity", ""), ("Flatten", "")])
    table = edgetune("roofline", "ops", model, "--strict")
    assert table.code == 0
    assert re.search(r"zero by definition +2 +100\.0% +Flatten, Identity", table.out)
    for more in (("--peaks", str(peaks)), ("--peaks", str(peaks), "--layers"), ("--tune", "5%")):
        ended = edgetune("roofline", model, *TWIN, *more)
        assert_two_lines(ended, 2)  # before anything is measured, and told
        assert "consists of Flatten, Identity" in ended.err


def test_layers_without_arithmetic_lie_at_zero(edgetune, peaks, tmp_path):
    """A transpose computes nothing and moves its operand twice: its least time waits for memory alone, and its figure
    has no logarithm. Of 16 elements it takes many times that, bound by its launch; unmeasured, memory bounds it."""
    model = save(tmp_path / "net.onnx", [("Transpose", "")], shape=(4, 4))
    plot = tmp_path / "r.svg"
    ended = edgetune("roofline", model, *TWIN, "--peaks", str(peaks), "--plot", str(plot))
    assert ended.code == 0, ended.err
    assert "100% waiting for memory" in ended.out
    assert "host-bound" in ended.out
    unmeasured = edgetune("roofline", model, *TWIN, "--peaks", str(peaks), "--no-measure")
    assert "memory-bound" in unmeasured.out
    assert b"<svg" in plot.read_bytes()


FILES = {
    "garbage": b"\x00\x01this is no model" * 50,
    "text": b"not a model either\n",
    "nothing": b"",
}


@pytest.mark.parametrize("held", FILES.values(), ids=FILES)
def test_a_file_that_is_no_model(edgetune, peaks, tmp_path, held):
    file = tmp_path / "net.onnx"
    file.write_bytes(held)
    for asked in (("ops", str(file)), (str(file), *TWIN, "--peaks", str(peaks))):
        ended = edgetune("roofline", *asked)
        assert_two_lines(ended, 2)
        assert "net.onnx" in ended.lines[0]


def test_a_model_that_is_cut_short(edgetune, tmp_path):
    whole = save(tmp_path / "net.onnx", [RELU, RELU])
    (tmp_path / "cut.onnx").write_bytes((tmp_path / "net.onnx").read_bytes()[:60])
    assert edgetune("roofline", "ops", whole).code == 0
    ended = edgetune("roofline", "ops", str(tmp_path / "cut.onnx"))
    assert_two_lines(ended, 2)
    assert "cut short" in ended.err


# Peaks


def changed(peaks, tmp_path, change):
    text = change(peaks.read_text())
    assert text != peaks.read_text()
    file = tmp_path / "changed.yaml"
    file.write_text(text)
    return str(file)


def with_peak(value):
    return lambda text: re.sub(r"flops_per_s: \S+", f"flops_per_s: {value}", text, count=1)


def without_roofs(text):
    return text[: text.index("roofs:")] + "roofs: []\n" + text[text.index("runs:") :]


BAD_PEAKS = {
    "cut in a key": (lambda text: text[: text.index("flops_per_s") + 3], "line"),
    "cut in a row": (lambda text: text[: text.rindex("[") + 9], "line"),
    "cut after a figure": (lambda text: text[: text.index("  bytes_per_s")], "bytes_per_s"),
    "a key twice": (lambda text: text.replace("  precision: tf32\n", "  precision: tf32\n" * 2), "given twice"),
    "a section twice": (lambda text: text + "device: twin:orin-agx\n", "the key 'device' is given twice"),
    "not a number": (with_peak(".nan"), "roofs.0.flops_per_s is nan"),
    "infinite": (with_peak(".inf"), "roofs.0.flops_per_s is inf"),
    "zero": (with_peak("0"), "roofs.0.flops_per_s is 0"),
    "negative": (with_peak("-3"), "roofs.0.flops_per_s is -3"),
    "a word": (with_peak("fast"), "roofs.0.flops_per_s is 'fast'"),
    "nothing": (with_peak("null"), "roofs.0.flops_per_s is None"),
    "points and no roof": (without_roofs, "has no roofs"),
    "an empty file": (lambda text: text[:0], "is empty"),
    "a plan": (lambda text: text.replace("kind: roofline", "kind: plan"), "is a plan, not a roofline"),
    "a list": (lambda _: "- 1\n", "is not a roofline"),
}


@pytest.mark.parametrize(("change", "said"), BAD_PEAKS.values(), ids=BAD_PEAKS)
def test_peaks_that_cannot_be_read(edgetune, peaks, tmp_path, change, said):
    file = changed(peaks, tmp_path, change)
    output = tmp_path / "r.yaml"
    ended = edgetune("roofline", "zoo:squeezenet", *TWIN, "--no-measure", "--peaks", file, "-o", str(output))
    assert_two_lines(ended, 2)
    assert "changed.yaml" in ended.lines[0]
    assert said in ended.lines[0]
    assert not output.exists()


def test_peaks_of_another_device_are_refused_until_forced(edgetune, peaks, tmp_path):
    other = changed(peaks, tmp_path, lambda text: text.replace("\ndevice: twin:orin-agx", "\ndevice: jetson"))
    asked = ("roofline", "zoo:squeezenet", *TWIN, "--no-measure", "--peaks", other)
    ended = edgetune(*asked)
    assert_two_lines(ended, 2)
    assert "has the peaks of jetson, not of twin:orin-agx" in ended.err
    assert "--force" in ended.lines[1]
    assert edgetune(*asked, "--force").code == 0


def test_one_mode_tells_no_other(edgetune, peaks):
    ended = edgetune("roofline", *TWIN, "--peaks", str(peaks), "--modes", "gpu_mhz=624")
    assert_two_lines(ended, 2)
    assert "1 measured mode cannot predict 1 others" in ended.err
    assert "low, middle and high" in ended.lines[1]


@pytest.mark.parametrize(
    ("name", "missing"),
    [("matmul", "no kernel bound by memory was measured in tf32"), ("copy", "no kernel bound by compute was measured")],
)
def test_a_single_kernel_is_no_roofline(edgetune, tmp_path, monkeypatch, name, missing):
    from edgetune.workflows.roofline import peaks
    from edgetune.workloads.kernels import BenchmarkKernel

    monkeypatch.setattr(peaks, "plan_kernels", lambda *_, **__: [BenchmarkKernel.square(name, 4096, "tf32")])
    ended = edgetune("roofline", *TWIN, "--quiet", "-o", str(tmp_path / "r.yaml"))
    assert_two_lines(ended, 2)
    assert missing in ended.err
    assert "matrix products and copies" in ended.lines[1]
    assert not (tmp_path / "r.yaml").exists()


def test_a_constant_that_would_be_negative_is_zero_and_says_what_is_missing(edgetune, tmp_path, monkeypatch):
    """At rest the board is said to draw 70 W, more than while it copies: a byte would give energy back."""
    from dataclasses import replace

    from edgetune.workflows.roofline import peaks

    measured = peaks.idle_run
    monkeypatch.setattr(peaks, "idle_run", lambda *asked: replace(measured(*asked), power_w=70.0))
    file = tmp_path / "r.yaml"
    ended = edgetune("roofline", *TWIN, "--quick", "-o", str(file))
    assert ended.code == 0, ended.err
    roofline = read(Roofline, str(file))
    (roof,) = roofline.roofs
    assert min(roof.flop_j, roof.byte_j) == 0
    assert [note.code for note in roofline.header.warnings] == ["energy-at-bound"]
    assert "energy-at-bound" in ended.out
    assert "let the device settle before power at rest is measured" in ended.out


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
    assert "no-energy" in ended.out
    assert "the rooflines are of time only" in ended.out
    assert b"<svg" in plot.read_bytes()
    assert_two_lines(edgetune("roofline", "zoo:squeezenet", *TWIN, "--tune", "5%"), 2)


# Precisions


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (("kernel:matmul:256", "host", "fp16"), "in the precision of its name", "write kernel:matmul:256:fp16"),
        (("kernel:matmul:256:fp16", "host", "bf16"), "computes in fp16, not in bf16", "leave --precision out"),
        (("zoo:squeezenet", "host", "fp16"), "runs the network as it is", "export the network in that precision"),
        (("zoo:squeezenet", "twin:orin-agx", "tf32"), "has no costs in tf32", "those of fp32"),
        (("zoo:squeezenet", "twin:orin-agx", "fp8"), "the twin has no precision 'fp8'", "bf16, int8"),
        (("kernel:matmul:256", "twin:orin-agx", "fp9"), "unknown precision: 'fp9'", "fp8"),
    ],
)
def test_a_precision_that_cannot_be_measured_so(edgetune, tmp_path, words, said, hint):
    model, device, precision = words
    asked = ("profile", model, "-t", "infer", "-d", device, "--precision", precision, "-o", str(tmp_path / "p.parquet"))
    ended = edgetune(*asked, "--quiet")
    assert_two_lines(ended, 2)
    assert said in ended.lines[0]
    assert hint in ended.lines[1]


def test_kernels_are_costed_in_every_precision_and_networks_in_those_they_can_be_stored_in(edgetune):
    for precision in ("tf32", "fp8"):
        assert f", {precision}\n" in edgetune("roofline", "ops", "kernel:matmul:4096", "--precision", precision).out
    assert edgetune("roofline", "ops", "zoo:squeezenet", "--precision", "fp8").code == 0
    ended = edgetune("roofline", "ops", "zoo:squeezenet", "--precision", "tf32")
    assert_two_lines(ended, 2)
    assert "those of fp32" in ended.lines[1]


def test_a_kernel_named_with_its_precision_may_be_asked_for_in_it(edgetune, tmp_path):
    pytest.importorskip("torch")
    asked = (
        "profile",
        "kernel:copy:1024:fp16",
        "-t",
        "infer",
        "-d",
        "host",
        "--precision",
        "fp16",
        "--minibatches",
        "10",
    )
    assert edgetune(*asked, "-o", str(tmp_path / "p.parquet"), "--quiet").code == 0


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
    assert "'height'" in ended.lines[0]
    assert "'width'" in ended.lines[0]
    words = re.findall(r"--dim \S+=\d+", ended.lines[1])
    assert words == ["--dim height=224", "--dim width=224"]
    assert edgetune("roofline", "ops", model, *" ".join(words).split()).code == 0
