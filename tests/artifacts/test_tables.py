"""Tables read back as they were written, whatever is in them; what cannot have happened is refused by row."""

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts import io
from edgetune.artifacts.columns import Column, columns_of
from edgetune.artifacts.evaluation import PROBLEM_COLUMNS, RUN_COLUMNS, Evaluation, EvaluationRow, EvaluationRun
from edgetune.artifacts.events import Events
from edgetune.artifacts.header import Header
from edgetune.artifacts.kernel_timeline import KernelTimelineRow
from edgetune.artifacts.kinds import class_of
from edgetune.artifacts.layer_costs import LayerCostRow, LayerCosts
from edgetune.artifacts.ops import OpsTable
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.run import RunRow
from edgetune.artifacts.timeline import TimelineRow
from edgetune.errors import InputError

_text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
_number = st.floats(1e-9, 1e9)


def cells(column: Column) -> st.SearchStrategy[Any]:
    """Return any cells of a column."""
    limit = column.limit
    number = st.floats(1e-9, 1.0) if limit is not None and limit.highest else _number
    of: dict[str, st.SearchStrategy[Any]] = {
        "text": st.sampled_from(column.choices) if column.choices else _text,
        "integer": st.integers(1, 2**40),
        "number": number,
        "flag": st.booleans(),
        "numbers": st.lists(_number, max_size=3).map(tuple),
        "integers": st.lists(st.integers(0, 2**40), max_size=3).map(tuple),
        "texts": st.lists(_text, max_size=3).map(tuple),
    }
    if column.sample is not None:
        return st.none() | st.lists(st.builds(column.sample, _number, _number), max_size=3).map(tuple)
    found = of[column.storage]
    return st.none() | found if column.nullable else found


def table_of(kind: str, rows: Any) -> Any:
    header = Header(kind, 1, "2026-01-02T03:04:05Z", "edgetune 0.1.0", conditions={"device": "host"})
    if kind == "ops":
        return OpsTable(header, "net", "infer", 1, "fp32", 7, False, tuple(rows))
    return class_of(kind)(header, tuple(rows))


def possible(row: Any, kind: str) -> Any:
    """Return a row of any cells with those that contradict each other changed."""
    if issubclass(class_of(kind), Events):
        names = [name for name in ("arrived_s", "started_s") if getattr(row, name) is not None]
        *times, last = sorted([*(getattr(row, name) for name in names), row.finished_s])
        row = replace(row, **dict(zip(names, times, strict=True)), finished_s=last)
        met = None if row.deadline_s is None else last <= row.deadline_s
        lacks = any(getattr(row, name) is None for name in class_of(kind).NEEDED.get(row.event, ()))
        return replace(row, met=met, **({"status": "failed"} if lacks else {}))
    if kind == "profile" and row.minibatch_s is None:
        return replace(row, status="failed")
    if kind == "convergence":
        return replace(row, status="missed" if row.epochs is None else "reached")
    return row


@pytest.mark.parametrize("kind", ["profile", "trace", "run", "timeline", "kernel_timeline", "convergence", "ops"])
@settings(deadline=None, max_examples=15)
@given(data=st.data())
def test_any_table_comes_back_to_the_last_bit(kind: str, data: st.DataObject) -> None:
    row_type = class_of(kind).ROW
    rows = st.builds(row_type, **{column.name: cells(column) for column in columns_of(row_type)})
    drawn = data.draw(st.lists(rows, min_size=int(kind == "convergence"), max_size=3))
    table = table_of(kind, [possible(row, kind) for row in drawn])
    for form in ("parquet", "json") if drawn else ("parquet",):
        assert io.from_bytes(table.to_bytes(form), kind=kind, name="it") == table


def test_an_empty_list_is_not_a_missing_one_and_a_diverged_loss_stays() -> None:
    row = ProfileRow("net", "train", 16, 0.07, gpu_mhz=727.0)
    table = table_of("profile", (replace(row, times_s=()), row, replace(row, power_trace=())))
    back = io.from_bytes(table.to_bytes(), kind="profile", name="it").rows
    assert [(each.times_s, each.power_trace) for each in back] == [((), None), (None, None), (None, ())]
    run = table_of("run", (RunRow("native", "train", 2.0, "net", started_s=1.0, loss=math.nan),))
    assert math.isnan(io.from_bytes(run.to_bytes(), kind="run", name="it").rows[0].loss)


_REQUEST = RunRow(
    "managed", "request", 0.06, "net", arrived_s=0.01, started_s=0.03, deadline_s=0.11, met=True, minibatch=0,
    batch_size=8, samples=5,
)  # fmt: skip
_LOAD = TimelineRow("load", "masa", 0.3, 0, "net", None, 4, "conv1", 0, 1, "net", None, 0.2, bytes=8, held_bytes=16)
_LAUNCH = KernelTimelineRow("launch", "elastic", 2.0, 0, "a", 0, 0, 0, "k", 0, 4, 1, True, 2, 64, started_s=1.0)


@pytest.mark.parametrize(
    ("kind", "bad", "words"),
    [
        ("run", replace(_REQUEST, finished_s=0.02), "finished_s is 0.02, before started_s, 0.03"),
        ("run", replace(_REQUEST, started_s=None, status="failed", finished_s=0.005), "before arrived_s, 0.01"),
        ("run", replace(_REQUEST, arrived_s=-0.5), "arrived_s is -0.5"),
        ("run", replace(_REQUEST, deadline_s=math.inf), "deadline_s is inf"),
        ("run", replace(_REQUEST, deadline_s=0.05), "met is true, but it finished 0.01 s after deadline_s"),
        ("run", replace(_REQUEST, batch_size=0), "batch_size is 0"),
        ("run", replace(_REQUEST, arrived_s=None), "a row of event request has no arrived_s"),
        ("run", RunRow("managed", "power", 0.2), "a row of event power has no power_w"),
        ("timeline", replace(_LOAD, finished_s=math.nan), "finished_s is nan"),
        ("timeline", replace(_LOAD, held_bytes=-1), "held_bytes is -1"),
        ("timeline", replace(_LOAD, worker=None), "a row of event load has no worker"),
        ("timeline", replace(_LOAD, event="execute", request=None), "a row of event execute has no request"),
        ("timeline", TimelineRow("budget", "masa", 0.1), "a row of event budget has no budget_bytes"),
        ("kernel_timeline", replace(_LAUNCH, count=0), "count is 0"),
        ("kernel_timeline", replace(_LAUNCH, event="residency"), "a row of event residency has no sm"),
    ],
)  # fmt: skip
def test_what_cannot_have_happened_is_refused_by_row(kind: str, bad: Any, words: str) -> None:
    good = {"run": _REQUEST, "timeline": _LOAD, "kernel_timeline": _LAUNCH}[kind]
    with pytest.raises(InputError) as caught:
        io.from_bytes(table_of(kind, (good, bad)).to_bytes(), kind=kind, name="it")
    assert caught.value.message.startswith("it, row 2: ")
    assert words in caught.value.message


# Columns


def test_units_stand_in_the_field_metadata() -> None:
    table = table_of("profile", (ProfileRow("net", "train", 16, 0.07, gpu_mhz=727.0),))
    schema = pq.read_schema(pa.BufferReader(table.to_bytes()))
    units = {name: (schema.field(name).metadata or {}).get(b"unit", b"").decode() for name in schema.names}
    assert (units["minibatch_s"], units["power_limit_w"], units["temp_max_c"], units["workload"]) == (
        "s", "W", "degC", ""
    )  # fmt: skip
    sample = schema.field("power_trace").type.value_type
    assert [sample.field(i).metadata[b"unit"] for i in range(2)] == [b"s", b"W"]


# Evaluations, whose runs are arrays

_FLAGS = ("solvable", "solved", "violated")
_SHARED = st.tuples(
    st.sampled_from(["train", "infer"]), st.sampled_from(["a.parquet", "b c.csv"]), st.sampled_from(["net", "ñet"]),
    st.sampled_from([None, "other"]), st.sampled_from(["gmd", "random"]), st.sampled_from([None, 10, 250]),
    st.integers(0, 3),
)  # fmt: skip


def a_run(random: np.random.Generator, shared: Any) -> EvaluationRun:
    count = int(random.integers(1, 6))
    budgets, excess = random.uniform(1, 60, count), random.uniform(0, 3, count)
    excess[random.random(count) < 0.4] = np.nan
    flags = [random.random(count) < 0.5 for _ in range(3)]
    return EvaluationRun(
        *shared, random.integers(0, 10**6, count), budgets, np.full(count, np.nan), np.full(count, 60.0), *flags,
        excess, random.integers(0, 300, count), random.uniform(0, 1, count), np.full(count, np.nan),
        np.where(flags[0], 3.0, np.nan), np.full(count, np.nan),
    )  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(shared=st.lists(_SHARED, unique=True, max_size=6), seed=st.integers(0, 2**32))
def test_evaluation_runs_come_back_in_order_to_the_last_bit(shared: list[Any], seed: int) -> None:
    random = np.random.default_rng(seed)
    before = Evaluation(Header.new("evaluation", 1), tuple(a_run(random, each) for each in shared))
    after = io.from_bytes(before.to_bytes(), kind="evaluation", name="e")
    assert after.header == before.header
    for one, other in zip(before.runs, after.runs, strict=True):
        assert [getattr(one, name) for name in RUN_COLUMNS] == [getattr(other, name) for name in RUN_COLUMNS]
        for name in PROBLEM_COLUMNS:
            assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=name not in _FLAGS), name


def test_rows_of_several_runs_may_be_mixed_and_later_columns_absent() -> None:
    random = np.random.default_rng(0)
    shared = [("train", "t", "net", None, "gmd", None, seed) for seed in range(2)]
    made = Evaluation(Header.new("evaluation", 1), tuple(a_run(random, each) for each in shared))
    table = pq.read_table(pa.BufferReader(made.to_bytes()))
    assert table.column_names == [field.name for field in fields(EvaluationRow)]

    def read(table: Any) -> Evaluation:
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        return io.from_bytes(bytes(sink.getvalue()), kind=Evaluation, name="e")

    after = read(table.take(random.permutation(table.num_rows)).drop_columns(["measurement_s"]))
    assert sorted(run.seed for run in after.runs) == [0, 1]
    assert sum(len(run.problem) for run in after.runs) == table.num_rows
    assert all(np.isnan(run.measurement_s).all() for run in after.runs)
    with pytest.raises(InputError, match="no column solved"):
        read(table.drop_columns(["solved"]))


# Layer costs, also by hand

_HEAD = "network,layer,kind,weight_bytes,output_bytes,load_s,execute_s"
_ROWS = ["a,conv1,conv,100,50,0.001,0.002", "a,fc,fc,1000,4,0.01,0.003", "b,conv1,conv,7,8,0,0.5"]


def costs(*lines: str) -> LayerCosts:
    return io.from_bytes("\n".join(lines).encode(), kind=LayerCosts, name="costs.csv")


def test_costs_by_hand_are_a_chain_of_layers_for_each_network() -> None:
    found = costs(_HEAD, *_ROWS)
    assert found.networks == ("a", "b")
    assert [(row.network, row.index, row.after) for row in found.rows] == [("a", 0, ()), ("a", 1, (0,)), ("b", 0, ())]
    assert found.rows[1] == LayerCostRow("a", "fc", "fc", 1000, 4, 0.01, 0.003, 1, (0,))
    branches = enumerate(["", "0", "0", "1 2"])
    found = costs(f"{_HEAD},after", *(f"a,l{i},other,0,1,0,1,{after}" for i, after in branches))
    assert [row.after for row in found.rows] == [(), (0,), (0,), (1, 2)]


@pytest.mark.parametrize(
    ("column", "row", "message"),
    [
        ("", "a,conv1,conv,1,1,1,1", "row 4: network a has a layer 'conv1' already"),
        ("", "a,x,convolution,1,1,1,1", "row 4: kind is 'convolution'"),
        ("", "a,x,conv,-1,1,1,1", "row 4: weight_bytes is -1"),
        ("", "a,x,conv,1,1,1e9,1", "row 4: load_s is 1e"),
        ("", "a,x,conv,1,1,,1", "row 4: load_s is empty"),
        ("", "a,x,conv,1.5,1,1,1", "row 4: weight_bytes is '1.5', not a whole number"),
        (",after", "a,x,other,0,1,0,1,1 0", r"a/x is after \[1, 0\]"),
        (",after", "a,x,other,0,1,0,1,fc", "row 4: after is 'fc'"),
        (",index", "a,x,other,0,1,0,1,3", "index of a/x is 3, and 2 layers come before it"),
    ],
)
def test_impossible_costs_are_refused_by_row(column: str, row: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        costs(_HEAD + column, *(each + "," * bool(column) for each in _ROWS), row)


def test_a_whole_network_has_a_row_of_its_own_for_each_form() -> None:
    lines = [f"{_HEAD},form", *(f"{row},layers" for row in _ROWS), "a,a,other,1100,4,0.1,0.2,default"]
    found = costs(*lines, "a,a,other,1100,4,0.1,0.2,external")
    assert [(row.network, row.form, row.index) for row in found.rows[3:]] == [("a", "default", 0), ("a", "external", 0)]
    with pytest.raises(InputError, match="row 5: there is already a row for a as a whole"):
        costs(*lines, "a,b,other,1,4,0.1,0.2,default")


def test_costs_without_rows_or_times_are_refused() -> None:
    with pytest.raises(InputError, match="no rows"):
        costs(_HEAD)
    with pytest.raises(InputError, match="no column execute_s") as error:
        costs(_HEAD.replace("execute_s", "execute_ms"), *_ROWS)
    assert "divide by 1000" in error.value.hint
