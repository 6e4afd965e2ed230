"""Evaluations to Parquet and back: runs and their columns."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts import io
from edgetune.artifacts.evaluation import PROBLEM_COLUMNS, RUN_COLUMNS, Evaluation, EvaluationRow, EvaluationRun
from edgetune.artifacts.header import Header
from edgetune.errors import InputError

HEADER = Header.new("evaluation", 1, conditions={"simulated": True})


def a_run(random: np.random.Generator, shared: tuple) -> EvaluationRun:
    count = int(random.integers(1, 6))
    budgets, excess = random.uniform(1, 60, count), random.uniform(0, 3, count)
    excess[random.random(count) < 0.4] = np.nan
    flags = [random.random(count) < 0.5 for _ in range(3)]
    return EvaluationRun(
        *shared, random.integers(0, 10**6, count), budgets, np.full(count, np.nan), np.full(count, 60.0), *flags,
        excess, random.integers(0, 300, count), random.uniform(0, 1, count), np.full(count, np.nan),
        np.where(flags[0], 3.0, np.nan), np.full(count, np.nan),
    )  # fmt: skip


SHARED = st.tuples(
    st.sampled_from(["train", "infer"]), st.sampled_from(["a.parquet", "b c.csv"]), st.sampled_from(["net", "ñet"]),
    st.sampled_from([None, "other"]), st.sampled_from(["gmd", "random"]), st.sampled_from([None, 10, 250]),
    st.integers(0, 3),
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(shared=st.lists(SHARED, unique=True, max_size=8), seed=st.integers(0, 2**32))
def test_runs_come_back_in_order_to_the_last_bit(shared, seed):
    random = np.random.default_rng(seed)
    before = Evaluation(HEADER, tuple(a_run(random, each) for each in shared))
    after = io.from_bytes(before.to_bytes(), kind="evaluation", name="e")
    assert after.header == before.header
    assert len(after.runs) == len(before.runs)
    for one, other in zip(before.runs, after.runs, strict=True):
        assert [getattr(one, name) for name in RUN_COLUMNS] == [getattr(other, name) for name in RUN_COLUMNS]
        for name in PROBLEM_COLUMNS:
            assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=name not in _FLAGS), name


_FLAGS = ("solvable", "solved", "violated")


def test_rows_of_several_runs_may_be_mixed_and_later_columns_absent(tmp_path):
    random = np.random.default_rng(0)
    shared = [("train", "t", "net", None, "gmd", None, seed) for seed in range(2)]
    path = tmp_path / "e.parquet"
    io.write(Evaluation(HEADER, tuple(a_run(random, each) for each in shared)), path)
    table = pq.read_table(path)
    mixed = table.take(random.permutation(table.num_rows)).drop_columns(["measurement_s"])
    pq.write_table(mixed, path)
    after = io.read(Evaluation, str(path))
    assert sorted(run.seed for run in after.runs) == [0, 1]
    assert sum(len(run.problem) for run in after.runs) == table.num_rows
    assert all(np.isnan(run.measurement_s).all() for run in after.runs)


def test_units_are_in_the_file_and_a_missing_column_is_named(tmp_path):
    path = tmp_path / "e.parquet"
    run = a_run(np.random.default_rng(0), ("train", "t", "net", None, "gmd", None, 0))
    io.write(Evaluation(HEADER, (run,)), path)
    schema = pq.read_schema(path)
    assert schema.names == [field.name for field in fields(EvaluationRow)]
    assert schema.field("power_budget_w").metadata == {b"unit": b"W"}
    pq.write_table(pq.read_table(path).drop_columns(["solved"]), path)
    with pytest.raises(InputError, match="no column solved"):
        io.read(Evaluation, str(path))


def test_it_is_no_profile(tmp_path):
    path = tmp_path / "e.parquet"
    io.write(Evaluation(HEADER, ()), path)
    with pytest.raises(InputError, match="evaluation, not a profile"):
        io.read_profile(str(path))
    assert io.read(Evaluation, str(path)).runs == ()
