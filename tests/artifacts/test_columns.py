"""Columns are what their dataclass says, units what their names say."""

from __future__ import annotations

from dataclasses import MISSING, dataclass

import pytest

from edgetune.artifacts.columns import Column, columns_of, unit_of
from edgetune.artifacts.ops import OpRow
from edgetune.artifacts.plain import plain
from edgetune.artifacts.profile import REQUIRED_COLUMNS, ProfileRow
from edgetune.artifacts.trace import TraceRow


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("minibatch_s", "s"), ("times_s", "s"), ("throughput_per_s", "1/s"), ("power_w", "W"), ("energy_j", "J"),
        ("gpu_mhz", "MHz"), ("weight_bytes", "byte"), ("bytes_read", "byte"), ("temp_max_c", "degC"), ("macs", "MAC"),
        ("flops", "FLOP"), ("flops_other", "FLOP"), ("workload", None), ("inputs", None), ("kernels", None),
    ],
)  # fmt: skip
def test_the_unit_is_in_the_name(name: str, unit: str | None) -> None:
    assert unit_of(name) == unit


def test_the_columns_that_a_profile_requires() -> None:
    assert tuple(column.name for column in columns_of(ProfileRow) if column.required) == REQUIRED_COLUMNS


def test_a_column_of_each_storage() -> None:
    by_name = {column.name: column for row in (ProfileRow, TraceRow, OpRow) for column in columns_of(row)}
    assert by_name["task"] == Column("task", "text", False, MISSING, ("infer", "train"), None)
    assert by_name["minibatch_s"].storage == "number"
    assert by_name["cpu_cores"] == Column("cpu_cores", "integer", True, None, (), None)
    assert by_name["throttled"] == Column("throttled", "flag", True, None, (), None)
    assert by_name["times_s"] == Column("times_s", "numbers", True, None, (), "s")
    assert by_name["power_trace"].storage == "samples"
    assert by_name["inputs"].storage == "texts"
    assert by_name["status"].default == "ok"


def test_a_field_that_no_column_can_store_is_a_mistake_in_the_code() -> None:
    with pytest.raises(TypeError, match="no column can store shape"):
        columns_of(_Odd)


@dataclass(frozen=True)
class _Odd:
    shape: dict[str, int]


def test_plain_refuses_what_has_no_plain_form() -> None:
    with pytest.raises(TypeError, match="cannot be stored in an artifact: object"):
        plain({"a": [object()]})
