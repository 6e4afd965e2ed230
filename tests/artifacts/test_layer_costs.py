"""Tables of layer costs: ours come back as they were, those written by hand are completed, impossible ones refused."""

import math

import pytest

from edgetune.artifacts import io
from edgetune.artifacts.header import Header
from edgetune.artifacts.layer_costs import LayerCostRow, LayerCosts
from edgetune.errors import InputError

HEAD = "network,layer,kind,weight_bytes,output_bytes,load_s,execute_s"
ROWS = ["a,conv1,conv,100,50,0.001,0.002", "a,fc,fc,1000,4,0.01,0.003", "b,conv1,conv,7,8,0,0.5"]


def read(*lines: str) -> LayerCosts:
    return io.from_bytes("\n".join(lines).encode(), kind="layer_costs", name="costs.csv")


def test_a_table_by_hand_is_a_chain_of_layers_for_each_network() -> None:
    costs = read(HEAD, *ROWS)
    assert costs.networks == ("a", "b")
    assert [(row.network, row.index, row.after) for row in costs.rows] == [("a", 0, ()), ("a", 1, (0,)), ("b", 0, ())]
    assert costs.rows[1] == LayerCostRow("a", "fc", "fc", 1000, 4, 0.01, 0.003, 1, (0,))


def test_branches_are_written_as_indices() -> None:
    costs = read(f"{HEAD},after", *(f"a,l{i},other,0,1,0,1,{after}" for i, after in enumerate(["", "0", "0", "1 2"])))
    assert [row.after for row in costs.rows] == [(), (0,), (0,), (1, 2)]


def test_a_table_of_ours_comes_back() -> None:
    first = LayerCostRow("a", "conv1", "conv", 1, 2, 0.5, 0.25, 0, (), execute_samples_s=(0.3, 0.25))
    last = LayerCostRow("a", "fc", "fc", 1, 2, None, None, 1, (0,), status="failed", reason="killed")
    costs = LayerCosts(Header.new("layer_costs", 1), (first, last))
    assert io.from_bytes(costs.to_bytes(), kind="layer_costs", name="x") == costs


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,conv1,conv,1,1,1,1", "row 4: network a has a layer 'conv1' already"),
        ("a,x,convolution,1,1,1,1", "row 4: kind is 'convolution'"),
        ("a,x,conv,-1,1,1,1", "row 4: weight_bytes is -1"),
        ("a,x,conv,1,1,inf,1", "row 4: load_s is inf"),
        ("a,x,conv,1,1,,1", "row 4: load_s is empty"),
        ("a,x,conv,1.5,1,1,1", "row 4: weight_bytes is '1.5', not a whole number"),
    ],
)
def test_what_cannot_be_is_refused_by_row(row: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(HEAD, *ROWS, row)


def test_a_whole_network_has_a_row_of_its_own_for_each_form() -> None:
    lines = [f"{HEAD},form", *(f"{row},layers" for row in ROWS), "a,a,other,1100,4,0.1,0.2,default"]
    costs = read(*lines, "a,a,other,1100,4,0.1,0.2,external")
    assert [(row.network, row.form, row.index) for row in costs.rows[3:]] == [("a", "default", 0), ("a", "external", 0)]
    with pytest.raises(InputError, match="row 5: there is already a row for a as a whole"):
        read(*lines, "a,b,other,1,4,0.1,0.2,default")


@pytest.mark.parametrize(
    ("column", "cell", "message"),
    [
        ("after", "2", r"a/x is after \[2\]"),
        ("after", "1 0", r"a/x is after \[1, 0\]"),
        ("after", "fc", "row 3: after is 'fc'"),
        ("index", "3", "index of a/x is 3, and 2 layers come before it"),
    ],
)
def test_layers_out_of_order_are_refused(column: str, cell: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(f"{HEAD},{column}", *(f"{row}," for row in ROWS[:2]), f"a,x,other,0,1,0,1,{cell}")


def test_a_table_without_rows_or_times_is_refused() -> None:
    with pytest.raises(InputError, match="no rows"):
        read(HEAD)
    with pytest.raises(InputError, match="no column execute_s") as error:
        read(HEAD.replace("execute_s", "execute_ms"), *ROWS)
    assert "divide by 1000" in error.value.hint


def test_nothing_is_measured_where_nobody_says_so() -> None:
    (row, *_) = read(HEAD, *ROWS).rows
    assert (row.peak_bytes, row.cold_load_s, row.execute_samples_s, row.scratch_bytes) == (None, None, (), 0)
    assert math.isclose(row.load_s or 0, 0.001)
