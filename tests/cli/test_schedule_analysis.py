"""``edgetune schedule graph``, ``generate`` and ``robustness``: what people see, and what is refused."""

import json
from dataclasses import replace

import pytest
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.layer_costs import LayerCosts
from edgetune.stages.schedule.costs import networks_of

COSTS = """network,layer,kind,weight_bytes,output_bytes,load_s,execute_s,after
net,conv1,conv,1000000,100000,0.010,0.020,
net,fc6,fc,30000000,1000,0.300,0.010,0
other,conv1,conv,1000000,100000,0.010,0.020,
"""


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "costs.csv").write_text(COSTS)


def test_the_orders_of_every_mode_are_reported(edgetune):
    ended = edgetune("schedule", "graph", "costs.csv", "--network", "net")
    assert ended.code == 0
    assert [line.split()[:5] for line in ended.out.splitlines()] == [
        ["net:", "2", "layers"],
        ["mode", "tasks", "arrows", "orders"],
        ["bulk", "6", "5", "1", "order"],
        ["linear", "6", "5", "1", "order"],
        ["deepeye", "6", "5", "10", "orders"],
        ["partial", "6", "5", "10", "orders"],
    ]


def test_a_graph_is_drawn_of_a_model(edgetune, tmp_path):
    words = ("--mode", "partial,linear", "-o", "graph.svg", "--prepared", "here", "--json")
    ended = edgetune("schedule", "graph", "zoo:squeezenet", *words)
    assert ended.lines[-1] == "wrote graph.svg"
    told = json.loads(ended.out)
    assert [mode["mode"] for mode in told["modes"]] == ["linear", "partial"]
    assert [mode["tasks"] for mode in told["modes"]] == [3 * told["layers"]] * 2
    assert [mode["exact"] for mode in told["modes"]] == [True, True]
    figure = (tmp_path / "graph.svg").read_text()
    assert "squeezenet, linear: 1 order" in figure
    edgetune("schedule", "graph", "zoo:squeezenet", *words)
    assert (tmp_path / "graph.svg").read_text() == figure


def test_many_layers_are_drawn_small(edgetune, tmp_path):
    made = edgetune("schedule", "generate", "-n", "1", "--layers", "150", "--shape", "skips", "--quiet")
    assert made.code == 0
    ended = edgetune("schedule", "graph", "made.parquet", "-o", "graph.svg")
    assert ended.code == 0
    orders = ended.out.splitlines()[-1].split()[-2]
    digits, _, power = orders.partition("e")
    assert float(digits) < 10
    assert int(power) > 300  # with as many digits, which nobody would read
    assert (tmp_path / "graph.svg").stat().st_size < 2_000_000


def test_bounds_are_told_for_what_they_are(edgetune):
    edgetune("schedule", "generate", "-n", "1", "--layers", "60", "--shape", "branches", "--width", "8", "--quiet")
    (told,) = json.loads(edgetune("schedule", "graph", "made.parquet", "--mode", "partial", "--json").out)["modes"]
    assert not told["exact"]
    assert told["orders"].endswith("orders (bounds)")


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("costs.csv",), "several networks", "--network net or other"),
        (("costs.csv", "--network", "nett"), "no network 'nett'", "net"),
        (("costs.csv", "--network", "net", "--mode", "buld"), "unknown mode: 'buld'", "did you mean bulk?"),
        (("costs.csv", "--network", "net", "-o", "graph.txt"), "graph.txt", "figure.svg"),
        (("zoo:squeezenet", "--network", "net"), "--network is for tables", "leave it out"),
        (("nothing.onnx",), "nothing.onnx", ""),
    ],
)
def test_graphs_that_are_refused(edgetune, words, message, hint):
    ended = edgetune("schedule", "graph", *words)
    assert_two_lines(ended, 2)
    assert message in ended.lines[0]
    assert hint in ended.lines[1]


def test_networks_are_made_up_and_run(edgetune):
    words = ("schedule", "generate", "-n", "2", "--shape", "fan", "--layers", "4", "--seed", "7")
    ended = edgetune(*words, "--count", "3")
    assert ended.lines == ["wrote made.parquet and made.yaml"]
    table = [line.split()[:2] for line in ended.out.splitlines()]
    assert table == [["network", "layers"], ["made-1", "4"], ["made-2", "4"]]
    costs = io.read(LayerCosts, "made.parquet")
    assert costs.header.simulated
    assert costs.header.conditions["generated"]["seed"] == 7
    networks = networks_of(costs)
    assert [layer.after for layer in networks["made-1"].layers] == [(), (0,), (0,), (0,)]
    ran = edgetune("schedule", "run", "made.yaml", "--simulate", "--policy", "masa,reuse", "-o", "t.parquet")
    assert ran.code == 0
    assert "6/6" in ran.out
    again = edgetune(*words, "-o", "b.parquet", "--json")
    assert json.loads(again.out)["networks"][0]["weight_bytes"] == networks["made-1"].weight_bytes
    assert io.read(LayerCosts, "b.parquet").rows == costs.rows


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--shape", "star"), "unknown shape: 'star'"),
        (("--layers", "9:3"), "--layers is 9:3"),
        (("--layers", "0"), "--layers is 0"),
        (("--weights", "normal:1MiB:2MiB"), "--weights"),
        (("--load", "fast/s"), "--load"),
        (("--arrivals", "sometimes"), "sometimes"),
        (("-o", "same.yaml", "--jobs", "same.yaml"), "same.yaml"),
        (("-o", "no/such/folder.parquet"), "no/such/folder.parquet"),
    ],
)
def test_invalid_generation_requests_are_refused(edgetune, words, message, tmp_path):
    ended = edgetune("schedule", "generate", *words)
    assert_two_lines(ended, 2)
    assert message in ended.lines[0]
    assert not (tmp_path / "made.parquet").exists()


def test_the_order_of_policies_under_noise(edgetune):
    edgetune("schedule", "generate", "-n", "2", "--count", "3", "--quiet")
    words = ("schedule", "robustness", "made.yaml", "--noise", "0.1,0.5", "--runs", "3", "-p", "masa,fcfs,reuse")
    ended = edgetune(*words)
    assert ended.code == 0
    assert ended.lines[0].startswith("SIMULATED")
    assert ended.lines[1:] == ["noise of 10%", "noise of 50%"]
    assert ended.out.splitlines()[1] == "reuse is best; over 3 runs for each amount of noise:"
    told = json.loads(edgetune(*words, "--json").out)
    assert set(told["measured_s"]) == {"masa", "fcfs", "reuse"}
    assert [(each["noise"], each["runs"], len(each["tau"])) for each in told["noise"]] == [(0.1, 3, 3), (0.5, 3, 3)]
    assert all(-1 <= tau <= 1 for each in told["noise"] for tau in each["tau"])


def test_robustness_simulates_what_schedule_run_does(edgetune):
    edgetune("schedule", "generate", "-n", "3", "--count", "4", "--memory", "260MiB", "--quiet")
    costs = io.read(LayerCosts, "made.parquet")
    slowed = {"base_bytes": 100 << 20, "execute_beside_load": 1.5, "load_beside_execute": 1.5}
    conditions = {**costs.header.conditions, "machine": slowed, "usable_cores": 2}
    io.write(replace(costs, header=replace(costs.header, conditions=conditions)), "made.parquet")
    words = ("made.yaml", "-p", "masa,fcfs", "--json")
    ran = json.loads(edgetune("schedule", "run", *words, "--simulate", "-o", "run.parquet").out)
    measured = json.loads(edgetune("schedule", "robustness", *words, "--noise", "0.1", "--runs", "1").out)["measured_s"]
    for each in ran["policies"]:
        assert measured[each["policy"]] == pytest.approx(each["responses"]["mean_s"], rel=1e-6)
    ended = edgetune("schedule", "robustness", "made.yaml", "--memory", "110MiB")
    assert_two_lines(ended, 3)
    assert "are taken before anything is loaded" in ended.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--noise", "0"), "--noise is 0"),
        (("--noise", "0.1,2"), "--noise"),
        (("-p", "masa"), "an order needs two policies or more"),
        (("-p", "masa,mas"), "no policy 'mas'"),
        (("--memory", "1KiB"), "too small"),
    ],
)
def test_studies_that_are_refused(edgetune, words, message):
    edgetune("schedule", "generate", "-n", "1", "--quiet")
    ended = edgetune("schedule", "robustness", "made.yaml", *words)
    assert ended.code in (2, 3)
    assert message in ended.err
    assert "hint: " in ended.err
