"""Sums of operator tables: by hand on a small one, and the same sum however rows are grouped on any."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.artifacts.header import Header
from edgetune.artifacts.ops import KIND, VERSION, OpRow, OpsTable, grouped, ledger, totals


def row(
    name, op, op_class="conv", phase="forward", *, ledger="modelled", macs=0, other=0, read=0, written=0, weights=0
):
    flops = 2 * macs + other
    return OpRow(name, op, op_class, phase, ledger, (), (), "float32", macs, flops, other, read, written, weights)


def table(*rows, task="infer"):
    return OpsTable(Header.new(KIND, VERSION), "net", task, 4, "fp32", 1000, False, rows)


SMALL = table(
    row("c1", "Conv", macs=100, other=10, read=30, written=12, weights=8),
    row("c2", "Conv", macs=50, read=20, written=8, weights=4),
    row("d1", "Conv", "depthwise", macs=10, read=20, written=20, weights=2),
    row("f", "Flatten", "view", ledger="zero"),
    row("x", "Mystery", "unmodelled", ledger="unmodelled"),
)


def test_the_ledger_is_complete_and_names_its_operators():
    assert [(entry.ledger, entry.nodes, entry.share, entry.ops) for entry in ledger(SMALL)] == [
        ("modelled", 3, 0.6, ("Conv",)),
        ("zero", 1, 0.2, ("Flatten",)),
        ("unmodelled", 1, 0.2, ("Mystery",)),
    ]


COUNTS = st.integers(0, 10**15)
ROWS = st.builds(
    row,
    st.text(max_size=3),
    st.sampled_from(["Conv", "Gemm", "Relu"]),
    st.sampled_from(["conv", "gemm", "elementwise"]),
    st.sampled_from(["forward", "backward", "optimiser"]),
    ledger=st.sampled_from(["modelled", "zero", "unmodelled"]),
    **dict.fromkeys(("macs", "other", "read", "written", "weights"), COUNTS),
)


@given(st.lists(ROWS, max_size=12), st.sampled_from(["op", "class", "node"]))
def test_groups_add_up_to_the_totals(rows, by):
    made = table(*rows, task="train")
    whole, parts = totals(made), grouped(made, by)
    for field in ("rows", "macs", "flops", "bytes_moved", "weight_bytes"):
        assert sum(getattr(part, field) for part in parts) == getattr(whole, field)
    assert (whole.macs, whole.flops, whole.bytes_moved) == (made.macs, made.flops, made.bytes_moved)
    has_nodes = any(each.phase == "forward" for each in rows)
    assert sum(entry.share for entry in ledger(made)) == pytest.approx(1 if has_nodes else 0)
