"""What layers cost, measured on small real networks, and what becomes of layers that cannot be measured."""

import dataclasses
import math
from dataclasses import replace
from pathlib import Path

import live_networks as nets
import numpy as np
import pytest
from onnx import helper

from edgetune.artifacts.header import Header
from edgetune.artifacts.layer_costs import LayerCostRow, LayerCosts
from edgetune.errors import InputError
from edgetune.stages.schedule import layer_worker
from edgetune.stages.schedule.costs import (
    LayerOptions,
    host_of,
    measure_machine,
    measure_network,
    networks_of,
    with_safety,
)
from edgetune.stages.schedule.network import Layer
from edgetune.stages.schedule.tasks import Machine
from edgetune.stats import StoppingRule, find_warmup, summarise
from edgetune.workloads.partition.check import PrepareOptions
from edgetune.workloads.partition.prepare import prepare
from edgetune.workloads.prepared import Prepared
from edgetune.workloads.resolve import resolve

QUICK = LayerOptions(StoppingRule(fixed=6))


def prepared(folder: Path, name: str, write) -> Prepared:
    path = folder / f"{name}.onnx"
    write(path)
    return prepare(resolve(str(path)), PrepareOptions(optimise="basic"), folder / "prepared" / name)


@pytest.fixture(scope="module")
def branchy(tmp_path_factory) -> Prepared:
    return prepared(tmp_path_factory.mktemp("measured"), "branchy", nets.branchy)


@pytest.fixture(scope="module")
def measured(branchy) -> tuple[LayerCostRow, ...]:
    return measure_network(branchy, replace(QUICK, cold=True), lambda _: None)


def table(rows) -> LayerCosts:
    return LayerCosts(Header.new("layer_costs", 1), tuple(rows))


def test_every_layer_has_the_figures_of_its_samples(branchy, measured):
    assert [row.layer for row in measured] == [layer.name for layer in branchy.layers]
    for row, layer in zip(measured, branchy.layers, strict=True):
        assert row.status == "ok"
        assert (row.kind, row.after, row.weight_bytes) == (layer.kind, layer.after, layer.weight_bytes)
        samples = row.execute_samples_s
        steady = samples[find_warmup(samples).length :]
        assert row.execute_s == summarise(steady).median
        assert len(steady) >= 6
        assert min(samples) > 0
        assert (row.execute_warmups, row.input_bytes) == (len(samples) - len(steady), branchy.input_bytes)
        assert None not in (row.first_execute_s, row.sessions_bytes)
        assert (row.unload_s is None) == (row.weight_bytes == 0)


def test_loads_are_from_storage_or_it_is_said_why_not(measured):
    for row in measured:
        if row.weight_bytes == 0:
            assert (row.cold_load_s, row.reason) == (None, None)
        elif row.cold_load_s is None:
            assert "from storage" in (row.reason or "")
        else:
            assert len(row.cold_load_samples_s) >= 6


def test_the_peak_is_that_of_the_layer_that_needs_memory(tmp_path):
    side = 1024  # 32 KiB go into the second product, 4 MiB come out and are summed

    def write(path: Path) -> None:
        nodes = [
            helper.make_node("MatMul", ["x", "v"], ["small"], name="small"),
            helper.make_node("Relu", ["small"], ["positive"], name="relu"),  # or the two products become one
            helper.make_node("MatMul", ["positive", "w"], ["big"], name="big"),
            helper.make_node("ReduceSum", ["big"], ["y"], name="sum", keepdims=0),
        ]
        weights = [nets.weight("v", 64, 8), nets.weight("w", 8, side)]
        nets._save(path, nodes, weights, [nets.value("x", 1, side, 64)], [nets.value("y")])

    small, big = measure_network(prepared(tmp_path, "outer", write), QUICK, lambda _: None)
    if big.peak_bytes is None or small.peak_bytes is None:
        pytest.skip("this kernel does not reset peaks")
    assert 0.8 * 4 * side**2 <= big.peak_bytes <= 2 * 4 * side**2
    assert small.peak_bytes <= 0.5 * big.peak_bytes


def test_layers_after_a_failed_one_are_not_measured(branchy, monkeypatch):
    """A worker that is given no time at all loses its first layer."""
    first, *rest = measure_network(branchy, replace(QUICK, timeout_s=0.0), lambda _: None)
    assert (first.status, first.load_s, first.execute_s) == ("failed", None, None)
    assert "took longer than" in (first.reason or "")
    assert {row.reason for row in rest} == {f"layer {first.layer} before it failed"}
    with pytest.raises(InputError, match=f"layer {first.layer} of branchy could not be measured"):
        networks_of(table([first, *rest]))


def test_changed_weights_are_no_figures(tmp_path):
    made = prepared(tmp_path, "branchy", nets.branchy)
    name = next(weight.file for layer in made.layers for weight in layer.weights)
    (made.folder / name).write_bytes(bytes((made.folder / name).stat().st_size))
    rows = measure_network(made, QUICK, lambda _: None)
    assert {row.status for row in rows} == {"failed"}
    assert name in (rows[0].reason or "")


def test_a_machine_says_what_the_process_takes_before_it_has_a_network(branchy):
    told = measure_machine([branchy], QUICK)
    assert 10 << 20 < told["base_bytes"] < 200 << 20
    assert set(told) <= {"base_bytes", "base_anonymous_bytes", "swap_bytes"}
    assert told["base_anonymous_bytes"] < told["base_bytes"], "of which libraries are pages of files"
    assert "base_bytes" not in measure_machine([replace(branchy, folder=branchy.folder / "none")], QUICK)


@pytest.mark.parametrize(("share", "reason"), [(1.0, "100% of a stays cached"), (None, "does not say"), (0.01, None)])
def test_a_file_that_stays_cached_is_no_storage(tmp_path, monkeypatch, share, reason):
    (tmp_path / "a").write_bytes(b"weights")
    monkeypatch.setattr(layer_worker, "cached_share", lambda _: share)
    said = layer_worker.why_not_cold([tmp_path / "a"])
    assert said is None if reason is None else reason in said


def test_sampling_ends_with_its_time(monkeypatch):
    clock = iter(np.arange(0.0, 100.0, 0.4))
    monkeypatch.setattr(layer_worker.time, "perf_counter", lambda: float(next(clock)))
    rising = iter(range(1, 100))  # never steady
    samples = layer_worker.sampled(StoppingRule(maximum=50), 3.0, lambda: float(next(rising)))
    assert len(samples) == 6 + 7  # the clock is looked at from the sixth on: 0.4 s then, and 3.2 s seven later


# -- as networks -------------------------------------------------------------------------------------------------

COLD = LayerCostRow("net", "a", "conv", 100, 10, 0.5, 0.25, 0, (), 6, 4, 30, 2.0)
WARM = LayerCostRow("net", "b", "fc", 1000, 4, 0.125, 0.5, 1, (0,), 8, 4, 5)


def test_scratch_is_the_larger_of_counted_and_measured():
    network = networks_of(table([COLD, WARM]))["net"]
    assert [layer.scratch_bytes for layer in network.layers] == [30 - 10, 8]
    assert [(layer.kind, layer.after) for layer in network.layers] == [("conv", ()), ("fc", (0,))]
    assert (network.input_bytes, network.weight_bytes) == (4, 1100)


def test_a_safety_factor_is_on_all_bytes_and_times():
    plain = networks_of(table([COLD, WARM]))["net"]
    safe = with_safety(plain, 1.5)
    assert safe.input_bytes == 6
    for one, other in zip(plain.layers, safe.layers, strict=True):
        for field in dataclasses.fields(one):
            value, scaled = getattr(one, field.name), getattr(other, field.name)
            assert scaled == (value * 1.5 if isinstance(value, (int, float)) else value)
    assert math.isclose(safe.service_s, 1.5 * plain.service_s)


LAYER = LayerCostRow(
    "net", "a", "fc", 1000, 10, 0.25, 0.5, 0, (), 5, 4, 20, 2.0, sessions_bytes=7, first_execute_s=0.75, unload_s=0.125
)
WHOLE = LayerCostRow(
    "net", "net", "other", 1000, 10, 1.0, 0.5, 0, (), 0, 4, 2500, 3.0, form="default", resident_bytes=1310,
    cold_execute_s=0.625, unload_s=0.25,
)  # fmt: skip


def costs_of(machine, *rows, **conditions) -> LayerCosts:
    return LayerCosts(Header.new("layer_costs", 1, conditions={"machine": machine, **conditions}), rows)


def test_a_table_says_what_layers_cost_besides():
    (layer,) = networks_of(table([LAYER, WHOLE]))["net"].layers
    assert layer == Layer("a", "fc", 1000, 10, 10, 2.0, 0.5, (), 0.125, 0.75, mapped_load_s=0.25)


def test_a_host_says_what_its_process_takes():
    host = host_of(costs_of({"base_bytes": 100, "swap_bytes": 0}, LAYER, WHOLE, usable_cores=3))
    assert host.machine == Machine(cores=3, swap_bytes=0)
    assert (host.taken_bytes("layers"), host.taken_bytes("default")) == (107, 100)
    assert host_of(table([LAYER])).machine == Machine(cores=2)
    own = host_of(costs_of({"base_bytes": 4e7, "base_anonymous_bytes": 2e7, "load_beside_load": 1.6}, LAYER))
    assert own.taken_bytes("default") == 20_000_000


@pytest.mark.parametrize("value", [-1, float("nan"), "1.2", True])
def test_a_size_of_the_machine_that_is_none_is_refused_by_name(value):
    with pytest.raises(InputError, match="swap_bytes of the machine is"):
        host_of(costs_of({"swap_bytes": value}))
