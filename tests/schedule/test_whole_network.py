"""A network as one layer: what it needs and takes is what its layers do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedule_builder import FirstCome, batch, chain, graphs, run

from edgetune.stages.schedule.network import as_one_layer, least_budget_bytes
from edgetune.stages.schedule.policies.policy import taken_by


def test_a_chain_needs_all_weights_and_its_widest_place():
    network = chain(
        "net",
        {"weights": 10, "output": 100, "scratch": 1, "load_ms": 1, "execute_ms": 2},
        {"weights": 20, "output": 50, "scratch": 5, "load_ms": 3, "execute_ms": 4},
        {"weights": 0, "output": 7, "scratch": 0, "load_ms": 9, "execute_ms": 8},
        input_bytes=3,
    )
    whole = as_one_layer(network)
    (only,) = whole.layers
    assert (only.weight_bytes, only.output_bytes, only.scratch_bytes) == (30, 7, 100 + 50 + 5 - 7)
    assert (only.load_s, only.execute_s) == (pytest.approx(0.004), pytest.approx(0.014))
    assert (whole.input_bytes, only.after, only.name) == (3, (), "net")


@given(graphs("net"))
def test_a_whole_network_needs_at_least_the_memory_of_its_layers(network):
    whole = as_one_layer(network)
    (only,) = whole.layers
    read = {producer for each in network.layers for producer in each.after}
    assert only.output_bytes == sum(each.output_bytes for i, each in enumerate(network.layers) if i not in read)
    assert only.weight_bytes == network.weight_bytes
    assert only.scratch_bytes >= 0
    assert least_budget_bytes(network) <= least_budget_bytes(whole)
    assert as_one_layer(whole) == whole


@given(graphs("net"), st.booleans())
def test_a_policy_gets_networks_as_it_takes_them_and_they_run(network, whole):
    policy = FirstCome()
    policy.whole = whole
    (taken,) = taken_by(policy, {"net": network}).values()
    assert taken == (as_one_layer(network) if whole else network)
    loop = run([taken], batch("net", "net"), policy=policy)
    assert [each.outcome for each in loop.requests] == ["ok", "ok"]
