"""``edgetune roofline MODEL --device D``: peaks measured, a network placed, words a person can act on."""

import json
import re
from dataclasses import replace

import onnx
import pytest
from command_line import assert_two_lines
from onnx import TensorProto, helper

from edgetune.artifacts.io import read, read_profile
from edgetune.artifacts.roofline import Roofline
from edgetune.cli.main import run
from edgetune.stages.roofline.balance import balance

TWIN = ("--device", "twin:orin-agx")
"""Published for the board that it is the twin of, at MAXN (Pagoda, 2025)."""


@pytest.fixture(scope="module")
def maxn(tmp_path_factory):
    """The twin's roofline at MAXN, measured once."""
    from edgetune.cli.main import run

    file = tmp_path_factory.mktemp("peaks") / "maxn.yaml"
    assert run(["roofline", *TWIN, "-o", str(file), "--quiet", "--json"]) == 0
    return file


def test_the_twin_measured_is_what_was_published_of_the_board(maxn):
    roofline = read(Roofline, str(maxn))
    assert roofline.header.simulated
    (roof,) = roofline.roofs
    found = balance(roof)
    assert roof.flops_per_s == pytest.approx(14.7e12, rel=0.05)
    assert roof.bytes_per_s == pytest.approx(164.4e9, rel=0.05)
    assert found.time == pytest.approx(89.4, rel=0.05)
    assert roof.static_w == pytest.approx(17.9, rel=0.05)
    assert roof.flop_j == pytest.approx(3.86e-12, rel=0.05)
    assert roof.byte_j == pytest.approx(141.4e-12, rel=0.05)
    assert found.energy.flop_per_byte == pytest.approx(39.8, rel=0.05)
    assert found.energy.peak_flops_per_j == pytest.approx(0.196e12, rel=0.05)
    assert found.dynamic.flop_per_byte == pytest.approx(36.5, rel=0.05)
    assert found.dynamic.peak_flops_per_j == pytest.approx(0.26e12, rel=0.05)


def test_an_eager_framework_is_placed_by_its_bytes_and_those_of_a_fused_runtime_are_printed(edgetune, maxn):
    """Pagoda (2025), 7.2: all networks stay memory-bound, whatever their batch size."""
    asked = ("roofline", "zoo:bert_large", *TWIN, "--peaks", str(maxn), "--batch-sizes", "1,32", "--no-measure", "-q")
    ended = edgetune(*asked)
    rows = [line for line in ended.out.splitlines() if line.split()[:1] in (["1"], ["32"])]
    assert [line.split()[-2] for line in rows] == ["memory-bound", "memory-bound"]
    assert "batch 32 27.2 GB, 93.41 FLOP/byte, compute-bound" in ended.out
    fused = json.loads(edgetune(*asked, "--json").out)["fused_runtime"]
    assert [(each["batch_size"], each["bound"]) for each in fused] == [(1, "memory"), (32, "compute")]
    assert fused[1]["bytes_moved"] == pytest.approx(27.2e9, rel=0.01)


def test_a_network_placed_by_eager_bytes_is_tuned(edgetune, tmp_path):
    """BERT's GELU and attention are kernels apart in the table that the modes are predicted from."""
    modes = "cpu_cores=8|12,gpu_mhz=726.75|1300.5,mem_mhz=2133|3199"
    ended = edgetune("roofline", "zoo:bert_base", *TWIN, "--quick", "--modes", modes, "--tune", "50%", "--json")
    assert ended.code == 0, ended.err
    tuned = json.loads(ended.out)["conditions"]["tune"]
    assert tuned["measured_slowdown_share"] <= 0.5 - tuned["model_error_share"]
    assert tuned["measured_saving_share"] > 0.005


def test_times_come_from_a_table(edgetune, maxn, tmp_path):
    table = tmp_path / "t.parquet"
    size = ("--batch-sizes", "4")
    assert edgetune("profile", "zoo:squeezenet", "-t", "infer", *TWIN, *size, "-o", str(table)).code == 0
    asked = ("roofline", "zoo:squeezenet", *TWIN, "--peaks", str(maxn), *size, "--json")
    measured = json.loads(edgetune(*asked).out)["placements"][0]["measured_s"]
    tabled = json.loads(edgetune(*asked, "--profile", str(table)).out)["placements"][0]["measured_s"]
    assert tabled == pytest.approx(measured)


@pytest.mark.parametrize("arguments", [("--device", "host"), (*TWIN, "--precision", "fp16")])
def test_peaks_that_do_not_fit_are_refused(edgetune, maxn, arguments):
    ended = edgetune("roofline", "zoo:squeezenet", *arguments, "--peaks", str(maxn), "--no-measure")
    assert_two_lines(ended, 2)


def test_a_dry_run_of_tuning_measures_nothing_either(edgetune, maxn, tmp_path):
    file = tmp_path / "plan.yaml"
    asked = ("roofline", "zoo:squeezenet", *TWIN, "--tune", "5%", "--dry-run", "-o", str(file))
    ended = edgetune(*asked)
    assert (ended.code, ended.err) == (0, "")
    assert edgetune(*asked, "--peaks", str(maxn), "--modes", "grid:441").code == 0
    assert not file.exists()


@pytest.mark.parametrize("name", ["r.html"])
def test_a_network_and_its_layers_are_drawn(edgetune, maxn, tmp_path, name):
    file = tmp_path / name
    asked = ("roofline", "zoo:squeezenet", *TWIN, "--peaks", str(maxn), "--batch-sizes", "1,16", "--layers")
    ended = edgetune(*asked, "--plot", str(file))
    assert ended.code == 0, ended.err
    assert b"squeezenet" in file.read_bytes()


@pytest.fixture(scope="module")
def clocks(tmp_path_factory):
    """The twin's rooflines in FP32 and FP16 at two GPU clocks."""
    from edgetune.cli.main import run

    file = tmp_path_factory.mktemp("clocks") / "clocks.yaml"
    asked = ("--precision", "fp32,fp16", "--modes", "gpu_mhz=1300|624", "--quick")
    assert run(["roofline", *TWIN, *asked, "-o", str(file), "--json"]) == 0
    return file


def test_precisions_are_measured_placed_and_told_beside_each_other(edgetune, clocks):
    kept = read(Roofline, str(clocks)).roofs
    assert [(roof.precision, roof.mode.gpu_mhz) for roof in kept] == [
        ("tf32", 1300.5), ("fp16", 1300.5), ("tf32", 624.75), ("fp16", 624.75),
    ]  # fmt: skip
    asked = ("roofline", "zoo:squeezenet", *TWIN, "--peaks", str(clocks), "--batch-sizes", "1,16")
    both = (*asked, "--precision", "fp32,fp16")
    ended = edgetune(*both)
    assert ended.code == 0, ended.err
    rows = [line.split()[:2] for line in ended.out.splitlines()]
    assert [row for row in rows if row and row[0] in ("tf32", "fp16")] == [
        ["tf32", "1"], ["tf32", "16"], ["fp16", "1"], ["fp16", "16"],
    ]  # fmt: skip
    answer = json.loads(edgetune(*both, "--json").out)
    alone = json.loads(edgetune(*asked, "--precision", "fp16", "--json").out)
    assert [each["roof"]["precision"] for each in answer["precisions"]] == ["tf32", "fp16"]
    assert answer["precisions"][1]["placements"] == alone["placements"]
    assert alone["measured_j"][0] > alone["placements"][0]["measured_s"] * 10  # the board draws more than 10 W


NET = ("zoo:squeezenet", *TWIN)
REFUSED = {
    "a table of two precisions": (*NET, "--profile", "t.parquet", "--precision", "fp32,fp16"),
    "tuning of two batch sizes": (*NET, "--tune", "5%", "--batch-sizes", "1,4"),
    "tuning without measuring": (*NET, "--tune", "5%", "--no-measure"),
    "two tasks": (*NET, "--train", "--task", "infer"),
}


@pytest.mark.parametrize("words", REFUSED.values(), ids=REFUSED)
def test_invalid_requests_are_refused_before_anything_is_measured(edgetune, words):
    ended = edgetune("roofline", *words)
    assert_two_lines(ended, 2)
    assert "measuring" not in ended.err


def test_train_is_short_for_the_task(edgetune, maxn):
    asked = ("roofline", "zoo:squeezenet", *TWIN, "--peaks", str(maxn), "--no-measure", "--json")
    short, long = (edgetune(*asked, *words) for words in (("--train",), ("--task", "train")))
    assert short.out == long.out
    once, trained = (json.loads(ended.out)["placements"][0]["flops"] for ended in (edgetune(*asked), short))
    assert trained > 2 * once
    ops = ("roofline", "ops", "zoo:squeezenet")
    assert edgetune(*ops, "--train").out == edgetune(*ops, "--task", "train").out


@pytest.mark.parametrize("order", ["gpu_mhz=318:1300:3"])
def test_the_highest_mode_counts_whatever_the_order_asked_for(edgetune, tmp_path, order):
    """Kernel sizes are compared in the mode measured first; a range begins with its lowest."""
    file = tmp_path / "r.yaml"
    ended = edgetune("roofline", *TWIN, "--modes", order, "--quick", "-o", str(file), "--json")
    assert ended.code == 0, ended.err
    kept = read(Roofline, str(file))
    clocks = [roof.mode.gpu_mhz for roof in kept.roofs]
    assert clocks == sorted(clocks, reverse=True)
    assert json.loads(ended.out)["roof"]["mode"]["gpu_mhz"] == 1300.5
    products = [run.mode.gpu_mhz for run in kept.runs if run.kernel == "matmul"]
    assert max(products, key=products.count) == 1300.5


def test_no_mode_comes_before_one_that_is_higher_throughout():
    from edgetune.artifacts.mode import Mode
    from edgetune.workflows.roofline.request import highest_first

    low, wide, top = Mode(4, 400.0, 300.0, 665.0), Mode(12, 2200.0, 300.0, 665.0), Mode(12, 2200.0, 1300.0, 3199.0)
    crossed = Mode(1, 115.0, 1300.0, 3199.0)
    assert highest_first([low, wide, crossed, top]) == (top, crossed, wide, low)
    capped, less = Mode(power_limit_w=200.0), Mode(power_limit_w=150.0)
    assert highest_first([less, Mode(), capped]) == (Mode(), capped, less)
    assert highest_first([Mode()]) == (Mode(),)


def test_a_network_is_placed_and_measured_in_each_of_few_modes(edgetune, tmp_path):
    figure = tmp_path / "r.svg"
    asked = ("roofline", "zoo:squeezenet", *TWIN, "--modes", "gpu_mhz=624|1300", "--quick", "--batch-sizes", "1,16")
    ended = edgetune(*asked, "--plot", str(figure))
    assert ended.code == 0, ended.err
    rows = [line.split()[:4] for line in ended.out.splitlines() if line.startswith("GPU ") and " MHz  " in line]
    assert rows == [
        ["GPU", clock, "MHz", size] for clock in ("1300.5", "624.75") for size in ("1", "16")
    ]  # fmt: skip
    words = figure.read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert "squeezenet, GPU 624.75 MHz" in words
    answer = json.loads(edgetune(*asked, "--json").out)
    (other,) = answer["other_modes"]
    assert (answer["roof"]["mode"]["gpu_mhz"], other["roof"]["mode"]["gpu_mhz"]) == (1300.5, 624.75)
    alone = json.loads(edgetune(*asked[:4], "--modes", "gpu_mhz=624", *asked[6:], "--json").out)
    assert [each["measured_s"] for each in other["placements"]] == [each["measured_s"] for each in alone["placements"]]
    assert other["measured_j"] == alone["measured_j"]


def test_measured_figures_are_printed_though_a_file_cannot_be_written(edgetune, maxn, tmp_path, monkeypatch):
    from edgetune.artifacts import file_operations

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(file_operations, "write", full)
    asked = ("roofline", "zoo:squeezenet", *TWIN, "--peaks", str(maxn), "--no-measure")
    for option, file in (("-o", "r.yaml"), ("--plot", "r.svg")):
        ended = edgetune(*asked, option, str(tmp_path / file))
        assert (ended.code == 0) == (option == "--plot")  # a figure changes no exit code


# Models, peaks and precisions that cannot be used


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


@pytest.mark.parametrize("domain", ["", "elsewhere"])
def test_an_unknown_operator_is_in_the_ledger_named_and_strict_refuses(edgetune, maxn, tmp_path, domain):
    model = save(tmp_path / "net.onnx", [RELU, ("Frob", domain)], domains=[domain] if domain else [])
    table = edgetune("roofline", "ops", model)
    assert table.code == 0
    assert re.search(r"unmodelled +1 +50\.0% +Frob", table.out)
    strict = edgetune("roofline", "ops", model, "--strict")
    assert_two_lines(strict, 2)
    placed = edgetune("roofline", model, *TWIN, "--peaks", str(maxn))
    assert placed.code == 0


# Peaks


def test_without_a_power_sensor_time_is_drawn_and_energy_is_absent_with_its_reason(edgetune, tmp_path, monkeypatch):

    from edgetune.devices import device
    from edgetune.devices.capabilities import Absent

    opened = device.open_device
    monkeypatch.setattr(device, "open_device", lambda *a, **k: replace(opened(*a, **k), power=Absent("no sensor")))
    file, plot = tmp_path / "r.yaml", tmp_path / "r.svg"
    ended = edgetune("roofline", "zoo:squeezenet", *TWIN, "--quick", "-o", str(file), "--plot", str(plot))
    assert ended.code == 0, ended.err
    (roof,) = read(Roofline, str(file)).roofs
    assert roof.flops_per_s > 0
    assert (roof.static_w, roof.flop_j, roof.byte_j) == (None, None, None)
    assert b"<svg" in plot.read_bytes()
    assert_two_lines(edgetune("roofline", "zoo:squeezenet", *TWIN, "--tune", "5%"), 2)


# Precisions


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


# Tuning on a recorded device: foreseen from peaks, chosen among a table's rows

MODES = "cpu_mhz=1036.8|2201.6,gpu_mhz=318.75|522.75|726.75|930.75|1134.75|1300.5,mem_mhz=665.6|2133|3199"


@pytest.fixture(scope="module")
def tune(tmp_path_factory):
    """A table of 36 modes, peaks of the same device in 12 of them, and the words that tune with both."""
    folder = tmp_path_factory.mktemp("recorded")
    table, peaks = str(folder / "resnet50.parquet"), str(folder / "peaks.yaml")
    assert run(["profile", "zoo:resnet50", *TWIN, "-t", "infer", "--modes", MODES, "-o", table, "--quiet"]) == 0
    clocks = "gpu_mhz=318.75|726.75|1134.75|1300.5,mem_mhz=665.6|2133|3199"
    assert run(["roofline", *TWIN, "--modes", clocks, "-o", peaks, "--quiet", "--json"]) == 0
    return table, ("roofline", "zoo:resnet50", "--tune", "5%", "-d", f"recorded:{table}", "--peaks", peaks, "--json")


def test_a_measured_row_wins(edgetune, tune):
    table, words = tune
    ended = edgetune(*words)
    assert ended.code == 0, ended.err
    plan, rows = json.loads(ended.out), read_profile(table).rows
    assert len(rows) == 36
    winner = next(row for row in rows if row.mode.knobs() == pytest.approx(plan["configuration"]["mode"]))
    assert plan["measured"]["minibatch_s"] == winner.minibatch_s
    assert plan["measured"]["power_w"] == winner.power_w
    known, found = {row.mode: (row.minibatch_s, row.energy_j) for row in rows}, plan["conditions"]["tune"]
    reference = max(known, key=lambda mode: tuple(mode.knobs().values()))
    assert found["reference"] == pytest.approx(reference.knobs())
    limit = 1.05 - found["model_error_share"]  # the table is the twin's, and so is its error
    assert found["model_error_share"] == 0.03
    within = {mode: joules for mode, (seconds, joules) in known.items() if seconds <= limit * known[reference][0]}
    assert winner.mode in within
    least = 1 - min(within.values()) / known[reference][1]
    saving = 1 - within[winner.mode] / known[reference][1]
    assert found["measured_saving_share"] == pytest.approx(saving)
    assert saving > 0.7 * least > 0
    assert plan["search"]["points_measured"] <= 6


def test_modes_are_chosen_among_those_asked_for(edgetune, tune):
    ended = edgetune(*tune[1], "--modes", "gpu_mhz=1134.75|1300.5,cpu_mhz=2201.6")
    assert json.loads(ended.out)["configuration"]["mode"]["gpu_mhz"] == 1134.75
