"""What tasks cost each other: figures of a header as a machine, and figures that are none."""

from pathlib import Path

import live_networks as nets
import pytest
from onnx import helper

from edgetune.artifacts.header import Header
from edgetune.artifacts.layer_costs import LayerCostRow, LayerCosts
from edgetune.errors import InputError
from edgetune.stages.schedule.costs import host_of, networks_of, wholes_of
from edgetune.stages.schedule.machine import FIGURES, Machine, checked_figures, machine_of
from edgetune.stages.schedule.measure import LayerOptions, measure_machine, measure_network
from edgetune.stages.schedule.network import Layer
from edgetune.stats import StoppingRule
from edgetune.workloads.partition.check import PrepareOptions
from edgetune.workloads.partition.prepare import prepare
from edgetune.workloads.prepared import Prepared
from edgetune.workloads.resolve import resolve

SIDE = 520  # 520 x 520 numbers of four bytes are more than 1 MiB


def test_unmeasured_contention_is_not_assumed():
    assert checked_figures(None) == {}
    assert machine_of({}, 4) == Machine(cores=4)


def test_figures_become_what_tasks_share():
    told = {
        "base_bytes": 4e7, "dispatch_s": 1e-4, "load_cpu": 0.5, "load_beside_load": 1.6, "queue_s": 0.003,
        "load_beside_execute": 1.2, "execute_beside_load": 1.1, "execute_beside_execute": 1.3,
    }  # fmt: skip
    assert machine_of(checked_figures({**told, "made_up": "by others"}), 2) == Machine(
        cores=2, streams=1.25, load_cpu=0.5, dispatch_s=1e-4, queue_s=0.003, execute_beside_execute=1.3,
        execute_beside_load=1.1, load_beside_execute=1.2,
    )  # fmt: skip


def test_contention_explained_by_a_shared_core_is_not_counted_twice():
    told = {"load_cpu": 0.5, "execute_beside_execute": 2.2, "execute_beside_load": 1.8, "load_beside_execute": 1.2}
    machine = machine_of(told, 1)
    assert machine.execute_beside_execute == pytest.approx(1.1)
    assert machine.execute_beside_load == pytest.approx(1.2)
    assert machine.load_beside_execute == 1.0


def test_nothing_is_faster_beside_another():
    faster = {name: 0.8 for name in FIGURES if "beside" in name}
    assert machine_of(faster, 2) == Machine(cores=2, streams=2.0)


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "1.2", True, None])
def test_a_figure_that_is_none_is_refused_by_name(value):
    with pytest.raises(InputError, match="queue_s of the machine is"):
        checked_figures({"queue_s": value})


LAYER = LayerCostRow(
    "net", "a", "fc", 1000, 10, 0.25, 0.5, 0, (), 5, 4, 20, 2.0, sessions_bytes=7, first_execute_s=0.75, unload_s=0.125
)
WHOLE = LayerCostRow(
    "net", "net", "other", 1000, 10, 1.0, 0.5, 0, (), 0, 4, 2500, 3.0, form="default", resident_bytes=1310,
    cold_execute_s=0.625, unload_s=0.25,
)  # fmt: skip
COSTS = LayerCosts(
    Header.new("layer_costs", 1, conditions={"machine": {"base_bytes": 100, "queue_s": 0.5}, "usable_cores": 3}),
    (LAYER, WHOLE),
)


def test_a_table_says_what_layers_cost_besides():
    (layer,) = networks_of(COSTS)["net"].layers
    assert layer == Layer("a", "fc", 1000, 10, 10, 2.0, 0.5, (), 0.125, 0.75, mapped_load_s=0.25)


def test_a_whole_network_is_one_layer_that_holds_what_was_measured():
    (whole,) = wholes_of(COSTS, "default")["net"].layers
    assert whole == Layer("net", "other", 1300, 10, 0, 3.0, 0.625, (), 0.25, load_scratch_bytes=2500 - 1300)
    assert wholes_of(COSTS, "external") == {}


def test_a_host_says_what_its_process_takes():
    host = host_of(COSTS)
    assert host.machine == Machine(cores=3, queue_s=0.5)
    assert (host.taken_bytes("layers"), host.taken_bytes("default")) == (107, 100)
    assert host_of(LayerCosts(Header.new("layer_costs", 1), (LAYER,))).machine == Machine(cores=2)


# -- measured ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Prepared:
    """Three layers of a MiB each, so that loads can be beside each other."""
    folder = tmp_path_factory.mktemp("contention")
    nodes = []
    for number in range(3):
        nodes.append(helper.make_node("MatMul", [f"r{number}" if number else "x", f"w{number}"], [f"m{number}"]))
        nodes.append(helper.make_node("Relu", [f"m{number}"], [f"r{number + 1}"]))
    weights = [nets.weight(f"w{number}", SIDE, SIDE) for number in range(3)]
    path: Path = folder / "net.onnx"
    nets._save(path, nodes, weights, [nets.value("x", 1, SIDE)], [nets.value("r3")])
    return prepare(resolve(str(path)), PrepareOptions(optimise="basic"), folder / "prepared" / "net")


def test_a_machine_is_measured_on_real_layers(prepared):
    told = measure_machine([prepared], LayerOptions(StoppingRule(fixed=6), cold=True))
    assert set(told) >= {"base_bytes", "dispatch_s", "execute_beside_execute"}
    assert set(told) in (set(FIGURES), {"base_bytes", "dispatch_s", "execute_beside_execute"}), "all of loads, or none"
    assert told["base_bytes"] > 10 << 20
    assert 0 < told["dispatch_s"] < 1
    assert checked_figures(told) == told


def test_whole_networks_have_a_row_for_each_form(prepared):
    options = LayerOptions(StoppingRule(fixed=6), cold=True, whole=True)
    *layers, default, external = sorted(
        measure_network(prepared, options, lambda _: None), key=lambda row: (row.form != "layers", row.form)
    )
    assert {row.form for row in layers} == {"layers"}
    for row, form in ((default, "default"), (external, "external")):
        assert (row.form, row.layer, row.status, row.weight_bytes) == (form, "net", "ok", prepared.weight_bytes)
        assert len(row.load_samples_s) == len(row.execute_samples_s) >= 6
        assert row.unload_s is not None
        assert (row.cold_load_s is None) == ("from storage" in (row.reason or ""))
    for row in layers:
        assert row.first_execute_s is not None
        assert row.sessions_bytes is not None
        assert (row.unload_s is None) == (row.weight_bytes == 0)
