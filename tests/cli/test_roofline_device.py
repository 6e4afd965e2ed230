"""``edgetune roofline MODEL --device D``: peaks measured, a network placed, words a person can act on."""

import json

import pytest
from command_line import assert_two_lines

from edgetune.artifacts.io import read, read_profile
from edgetune.artifacts.roofline import Roofline
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


@pytest.mark.parametrize("network", ["resnet50", "mobilenet_v3_large", "yolov8n", "lstm", "bert_large"])
def test_every_network_of_the_study_is_bound_by_memory_at_batch_1(edgetune, maxn, network):
    ended = edgetune("roofline", f"zoo:{network}", *TWIN, "--peaks", str(maxn), "--json", "--no-measure")
    assert ended.code == 0, ended.err
    (placed,) = json.loads(ended.out)["placements"]
    assert placed["bound"] == "memory"


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


def test_each_mode_has_a_roof(edgetune, tmp_path):
    file = tmp_path / "r.yaml"
    modes = ("--modes", "gpu_mhz=1300|1032|624,mem_mhz=3199|2133")
    ended = edgetune("roofline", "zoo:resnet50", *TWIN, *modes, "-o", str(file), "--no-measure")
    assert ended.code == 0
    assert len(read(Roofline, str(file)).roofs) == 6


def test_times_come_from_a_table(edgetune, maxn, tmp_path):
    table = tmp_path / "t.parquet"
    size = ("--batch-sizes", "4")
    assert edgetune("profile", "zoo:squeezenet", "-t", "infer", *TWIN, *size, "-o", str(table)).code == 0
    asked = ("roofline", "zoo:squeezenet", *TWIN, "--peaks", str(maxn), *size, "--json")
    measured = json.loads(edgetune(*asked).out)["placements"][0]["measured_s"]
    tabled = json.loads(edgetune(*asked, "--profile", str(table)).out)["placements"][0]["measured_s"]
    assert tabled == pytest.approx(measured)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--device", "host"),
        (*TWIN, "--precision", "fp16"),
        (*TWIN, "--precision", "fp33"),
        (*TWIN, "--modes", "gpu_mhz=624"),
    ],
)
def test_peaks_that_do_not_fit_are_refused(edgetune, maxn, arguments):
    ended = edgetune("roofline", "zoo:squeezenet", *arguments, "--peaks", str(maxn), "--no-measure")
    assert_two_lines(ended, 2)


def test_peaks_of_another_device_are_taken_when_forced(edgetune, maxn):
    arguments = ("--device", "host", "--precision", "tf32", "--no-measure", "--force", "--peaks", str(maxn))
    assert edgetune("roofline", "zoo:squeezenet", *arguments).code == 0


EIGHT = ("--modes", "cpu_cores=12,cpu_mhz=1651.2|2201.6,gpu_mhz=726.75|1300.5,mem_mhz=2133|3199")


def test_beyond_four_modes_the_next_clocks_are_planned(edgetune):
    """What the highest of eight modes becomes with one knob lower: three more modes to run the network in."""
    machine = json.loads(edgetune("roofline", "zoo:squeezenet", *TWIN, *EIGHT, "--quick", "--dry-run", "--json").out)
    assert (machine["network_modes"], machine["next_clock_modes"]) == (1, 3)


def test_a_profile_tells_the_next_clocks_that_it_has(edgetune, tmp_path):
    peaks, rows = str(tmp_path / "peaks.yaml"), str(tmp_path / "rows.parquet")
    edgetune("roofline", *TWIN, *EIGHT, "--quick", "-o", peaks)
    some = "cpu_cores=12,cpu_mhz=2201.6,gpu_mhz=726.75|1300.5,mem_mhz=3199"
    edgetune("profile", "zoo:squeezenet", "--task", "infer", *TWIN, "--modes", some, "--batch-sizes", "1", "-o", rows)
    ended = edgetune("roofline", "zoo:squeezenet", *TWIN, *EIGHT, "--peaks", peaks, "--profile", rows, "--json")
    cpu, gpu, memory = json.loads(ended.out)["next_clocks"]
    assert (cpu["time"]["value"], memory["time"]["value"]) == (None, None)
    found = {row.gpu_mhz: row for row in read_profile(rows).rows}
    assert gpu["time"]["value"] == pytest.approx(found[726.75].minibatch_s / found[1300.5].minibatch_s - 1)
    assert gpu["energy"]["value"] == pytest.approx(found[726.75].energy_j / found[1300.5].energy_j - 1)
    assert "measuring" not in ended.err


def test_a_dry_run_of_tuning_measures_nothing_either(edgetune, maxn, tmp_path):
    file = tmp_path / "plan.yaml"
    asked = ("roofline", "zoo:squeezenet", *TWIN, "--tune", "5%", "--dry-run", "-o", str(file))
    ended = edgetune(*asked)
    assert (ended.code, ended.err) == (0, "")
    assert edgetune(*asked, "--peaks", str(maxn), "--modes", "grid:441").code == 0
    assert not file.exists()


def test_a_search_takes_the_roofline_as_a_first_guess(edgetune, maxn, tmp_path):
    plan = tmp_path / "plan.yaml"
    asked = ("search", "zoo:squeezenet", "-t", "train", *TWIN, "--batch-sizes", "16", "--modes", "grid:100")
    ended = edgetune(*asked, "--power-budget", "30W", "--roofline", str(maxn), "--max-points", "5", "-o", str(plan))
    assert ended.code == 0, ended.err
    assert "5 points measured" in ended.err
    (tmp_path / "host.yaml").write_text(maxn.read_text(encoding="utf-8").replace("twin:orin-agx", "host"))
    refused = edgetune(*asked, "--power-budget", "30W", "--roofline", str(tmp_path / "host.yaml"))
    assert_two_lines(refused, 2)


def test_priors_reach_the_strategy(edgetune, maxn, monkeypatch):
    from edgetune.stages.search.strategies import roofline

    seen = []
    made = roofline.RooflineSearch.__init__

    def note(self, *arguments, hints, **named):
        seen.append(hints)
        made(self, *arguments, hints=hints, **named)

    monkeypatch.setattr(roofline.RooflineSearch, "__init__", note)
    asked = ("search", "zoo:squeezenet", "-t", "train", *TWIN, "--batch-sizes", "4,16", "--modes", "grid:50")
    edgetune(*asked, "--power-budget", "30W", "--roofline", str(maxn), "--max-points", "4")
    assert seen[0].balance_flop_per_byte == pytest.approx(89.4, rel=0.05)
    assert [totals.batch_size for totals in seen[0].operators] == [4, 16]
    assert seen[0].operators[1].flops > 3.9 * seen[0].operators[0].flops


def test_layers_are_timed(edgetune, maxn):
    asked = ("roofline", "zoo:squeezenet", *TWIN, "--peaks", str(maxn), "--batch-sizes", "16", "--layers")
    answer = json.loads(edgetune(*asked, "--json").out)
    assert sum(layer["share"] for layer in answer["layers"]) == pytest.approx(answer["layers_explained_share"])
    assert 0.5 < answer["layers_explained_share"] <= 1


@pytest.mark.parametrize("name", ["r.svg", "r.html"])
def test_a_network_and_its_layers_are_drawn(edgetune, maxn, tmp_path, name):
    file = tmp_path / name
    asked = ("roofline", "zoo:squeezenet", *TWIN, "--peaks", str(maxn), "--batch-sizes", "1,16", "--layers")
    ended = edgetune(*asked, "--plot", str(file))
    assert ended.code == 0, ended.err
    assert f"wrote {file}" in ended.err
    assert b"squeezenet" in file.read_bytes()


@pytest.fixture(scope="module")
def tuning_peaks(tmp_path_factory):
    """Peaks of the twin in the modes that --tune measures."""
    from edgetune.artifacts.io import write
    from edgetune.cli.screen import Screen
    from edgetune.devices.discover import open_device
    from edgetune.workflows.roofline.peaks import measured_peaks
    from edgetune.workflows.roofline.tune import peak_modes

    device = open_device("twin:orin-agx")
    file = tmp_path_factory.mktemp("tuning") / "peaks.yaml"
    write(
        measured_peaks(device, peak_modes(device.modes.space), ["tf32"], quick=True, reporter=Screen(quiet=True)), file
    )
    return file


@pytest.mark.parametrize("network", ["resnet50", "bert_large"])
def test_tuning_saves_energy_within_the_slowdown_as_measured(edgetune, tuning_peaks, network):
    asked = ("roofline", f"zoo:{network}", *TWIN, "--peaks", str(tuning_peaks), "--tune", "5%", "--json")
    ended = edgetune(*asked)
    assert ended.code == 0, ended.err
    plan = json.loads(ended.out)
    tune = plan["conditions"]["tune"]
    assert 0.005 < tune["measured_saving_share"] < 0.5
    assert tune["measured_slowdown_share"] <= 0.05
    assert plan["search"]["points_measured"] <= 6
    slower = plan["measured"]["minibatch_s"] / tune["reference_minibatch_s"] - 1
    assert slower == pytest.approx(tune["measured_slowdown_share"])


@pytest.mark.parametrize(
    "arguments",
    [
        (*TWIN, "--tune", "5%"),
        ("zoo:squeezenet", *TWIN, "--tune", "fast"),
        ("zoo:squeezenet", "--device", "host", "--tune", "5%"),
    ],
)
def test_tuning_that_cannot_be_is_two_lines(edgetune, arguments):
    ended = edgetune("roofline", *arguments)
    assert ended.code in (2, 4)
    assert_two_lines(ended, ended.code)


def test_no_file_that_is_read_or_holds_something_else_is_overwritten(edgetune, maxn, tmp_path):
    before = maxn.read_bytes()
    for output in (("-o", str(maxn)), ("--plot", str(maxn.with_suffix(".yaml")))):
        assert_two_lines(edgetune("roofline", *TWIN, "--peaks", str(maxn), *output), 2)
    model = tmp_path / "net.onnx"
    assert edgetune("zoo", "export", "squeezenet", "-o", str(model)).code == 0
    held = model.read_bytes()
    assert_two_lines(edgetune("roofline", str(model), *TWIN, "--peaks", str(maxn), "-o", str(model)), 2)
    tuned = edgetune("roofline", str(model), *TWIN, "--tune", "5%", "-o", str(maxn))
    assert_two_lines(tuned, 2)
    assert (maxn.read_bytes(), model.read_bytes()) == (before, held)


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
    "tuning of two precisions": (*NET, "--tune", "5%", "--precision", "fp32,fp16"),
    "a table of two precisions": (*NET, "--profile", "t.parquet", "--precision", "fp32,fp16"),
    "tuning of two batch sizes": (*NET, "--tune", "5%", "--batch-sizes", "1,4"),
    "a figure of tuning": (*NET, "--tune", "5%", "--plot", "r.svg"),
    "layers of tuning": (*NET, "--tune", "5%", "--layers"),
    "tuning by a table": (*NET, "--tune", "5%", "--profile", "t.parquet"),
    "tuning without measuring": (*NET, "--tune", "5%", "--no-measure"),
    "an empty precision": (*NET, "--precision", "fp32,"),
    "two tasks": (*NET, "--train", "--task", "infer"),
}  # fmt: skip


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


@pytest.mark.parametrize("order", ["gpu_mhz=318:1300:3", "30w,MAXN", "MAXN,30w"])
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
        assert "squeezenet beneath it" in ended.out
