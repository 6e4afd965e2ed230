"""Times of layers joined to a table: closed-form sums, and nothing spread by guessing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.artifacts.header import Header
from edgetune.artifacts.layers import LayerTime, LayerTimes
from edgetune.artifacts.ops import KIND, VERSION, OpRow, OpsTable
from edgetune.stages.roofline.layers import join


def row(name, op="Conv", *, flops=100, read=40, written=10, weights=0, phase="forward", ledger="modelled"):
    return OpRow(
        name, op, "conv", phase, ledger, (), (), "float32", flops // 2, flops, 0, read, written, weight_bytes=weights
    )


def table(*rows):
    return OpsTable(Header.new(KIND, VERSION), "net", "infer", 1, "fp32", 0, False, rows)


def time(*rows, seconds=1.0, phase="forward", how="node", data_bytes=None):
    return LayerTime("+".join(rows), "Conv", phase, rows, seconds, how, data_bytes)


def times(*found, minibatch_s=10.0):
    return LayerTimes("test", False, 3, minibatch_s, found)


def test_fused_rows_are_one_layer_whose_cost_is_their_sum():
    ops = table(row("conv", flops=200, weights=8), row("relu", "Relu", flops=10), row("other"))
    (layer,) = join(ops, times(time("conv", "relu", seconds=4.0, how="fused"))).layers
    assert (layer.row.name, layer.row.op, layer.how) == ("conv", "Conv+Relu", "fused")
    assert (layer.row.flops, layer.row.bytes_read, layer.row.bytes_written, layer.row.weight_bytes) == (210, 80, 20, 8)


def test_bytes_between_fused_rows_are_left_out_where_the_runtime_tells_its_inputs_and_outputs():
    ops = table(row("conv", read=40, written=10, weights=8), row("relu", "Relu", read=10, written=10))
    (layer,) = join(ops, times(time("conv", "relu", data_bytes=32 + 10))).layers
    assert (layer.row.bytes_read, layer.row.bytes_written) == (40, 10)
    (layer,) = join(ops, times(time("conv", "relu", data_bytes=1000))).layers
    assert (layer.row.bytes_read, layer.row.bytes_written) == (50, 20)


def test_a_row_shared_by_two_times_makes_one_layer_of_all_their_rows():
    found = times(time("a", "b", seconds=1.0), time("d", seconds=4.0), time("b", "c", seconds=2.0))
    layers = join(table(*(row(name) for name in "abcd")), found).layers
    assert [(layer.rows, layer.seconds) for layer in layers] == [(("a", "b", "c"), 3.0), (("d",), 4.0)]


def test_times_of_a_node_backward_are_of_all_its_gradients():
    ops = table(
        row("conv"),
        row("conv/input_gradient", phase="backward"),
        row("conv/weight_gradient", phase="backward"),
        row("conv.weight/optimiser", "SGD", phase="optimiser"),
    )
    found = times(time("conv"), time("conv", phase="backward"), time("conv.weight", phase="optimiser"))
    layers = join(ops, found)
    assert [layer.rows for layer in layers.layers] == [
        ("conv",),
        ("conv/input_gradient", "conv/weight_gradient"),
        ("conv.weight/optimiser",),
    ]
    assert layers.layers[1].row.op == "Conv"


def test_unexplained_time_is_distinguished():
    ops = table(row("a"), row("b"), row("view", ledger="zero"))
    found = times(
        time("a", seconds=5.0), time(seconds=1.0, how="inserted"), time("gone", seconds=2.0), minibatch_s=10.0
    )
    layers = join(ops, found)
    assert layers.unexplained_share == pytest.approx(0.5)
    assert layers.inserted_share == pytest.approx(0.1)
    assert layers.unexplained_share - layers.inserted_share - layers.between_share == pytest.approx(0.2)
    assert layers.between_share == pytest.approx(0.2)
    assert [time.how for time in layers.unexplained] == ["inserted", "unmatched"]
    assert layers.untimed == ("b",)


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 9), max_size=4, unique=True), st.floats(0, 5), st.booleans()), max_size=15
    ),
    st.floats(0.1, 5),
)
def test_every_second_and_every_row_is_counted_once(drawn, between_s):
    ops = table(*(row(f"n{index}") for index in range(10)))
    found = [
        time(*(f"n{index}" for index in indices), seconds=seconds, how="inserted" if extra else "unmatched")
        for indices, seconds, extra in drawn
    ]
    measured = times(*found, minibatch_s=sum(time.seconds for time in found) + between_s)
    layers = join(ops, measured)
    rows = [name for layer in layers.layers for name in layer.rows]
    assert len(rows) == len(set(rows))
    assert set(rows) == {name for time in found for name in time.rows}
    assert set(rows) | set(layers.untimed) == {row.name for row in ops.rows}
    assert layers.explained_share + layers.unexplained_share == pytest.approx(1)
