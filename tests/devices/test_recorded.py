"""A table as a device: it answers what was measured and nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.device_contract import DeviceContract
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, Profile, ProfileRow
from edgetune.devices.capabilities import Absent, ModeControl
from edgetune.devices.device import Device
from edgetune.devices.recorded import RecordedTable, RecordedWorkload, open_recorded, recorded_device, workloads_of
from edgetune.errors import DeviceError, InputError

_DATA = Path(__file__).parents[2] / "../shared/data"
_ROWS = tuple(
    ProfileRow("net", "train", size, 0.001 * size, gpu_mhz=gpu, mem_mhz=2133.0, power_w=20.0)
    for gpu in (318.75, 726.75, 1300.5)
    for size in (1, 16)
)


def _device(*rows: ProfileRow, **conditions: object) -> Device:
    return recorded_device(Profile(Header.new("profile", 1, conditions=conditions), rows), name="recorded:t.csv")


def _lookup(device: Device, point: Point) -> ProfileRow:
    return device.source.lookup(point)


def _control(device: Device) -> ModeControl:
    assert not isinstance(device.modes, Absent)
    return device.modes


class TestARecordedTable(DeviceContract):
    @pytest.fixture
    def device(self) -> Device:
        return _device(*_ROWS)


class TestATableWithoutKnobs(DeviceContract):
    @pytest.fixture
    def device(self) -> Device:
        return _device(ProfileRow("net", "infer", 1, 0.5))


class TestAPublicTable(DeviceContract):
    @pytest.fixture
    def device(self) -> Device:
        path = _DATA / "loudva/xavier_nx_concurrency.csv"
        if not path.exists():
            pytest.skip("the public measurements are not beside this checkout")
        return open_recorded(str(path))


def test_six_columns_of_csv_are_a_device(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("workload,task,batch_size,gpu_mhz,minibatch_s,power_w\nnet,train,16,900,0.05,20\n")
    device = open_recorded(str(path))
    assert device.name == f"recorded:{path}"
    row = _lookup(device, Point("net", "train", 16, Mode(gpu_mhz=900.0)))
    assert (row.minibatch_s, row.power_w) == (0.05, 20.0)
    assert _control(device).space.listed == (Mode(gpu_mhz=900.0),)
    assert len(device.conditions["recorded"]["sha256"]) == 64
    assert not device.simulated


@settings(deadline=None)
@given(st.floats(10, 3000), st.floats(-4e-7, 4e-7))
def test_the_last_digits_of_a_clock_do_not_matter(mhz: float, error: float) -> None:
    mhz = round(mhz, 3)
    device = _device(ProfileRow("net", "train", 1, 0.5, gpu_mhz=mhz))
    assert _lookup(device, Point("net", "train", 1, Mode(gpu_mhz=mhz + error))).gpu_mhz == mhz


@pytest.mark.parametrize(
    ("point", "hint"),
    [
        (Point("nut", "train", 16, Mode(gpu_mhz=318.75, mem_mhz=2133.0)), "its workloads: net"),
        (Point("net", "infer", 16, Mode(gpu_mhz=318.75, mem_mhz=2133.0)), "its tasks: train"),
        (
            Point("net", "train", 12, Mode(gpu_mhz=318.75, mem_mhz=2133.0)),
            "the nearest batch_size measured there is 16",
        ),
        (
            Point("net", "train", 16, Mode(gpu_mhz=700.0, mem_mhz=2133.0)),
            "the nearest gpu_mhz measured there is 726.75",
        ),
        (Point("net", "train", 16, Mode(gpu_mhz=318.75, mem_mhz=3199.0)), "the nearest mem_mhz measured there is 2133"),
        (Point("net", "train", 16, Mode(8, None, 318.75, 2133.0)), "cpu_cores was not set in that table"),
        (Point("net", "train", 16, Mode(mem_mhz=2133.0)), "gpu_mhz must be given; it has 318.75, 726.75, 1300.5"),
    ],
)
def test_a_point_that_is_not_there_is_never_made_up(point: Point, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        _lookup(_device(*_ROWS), point)
    assert caught.value.message == f"recorded:t.csv has no {point}"
    assert hint in caught.value.hint


def test_the_newest_measurement_of_a_point_stands_and_that_is_said() -> None:
    first, again = _ROWS[0], replace(_ROWS[0], minibatch_s=0.5)
    device = _device(first, _ROWS[1], again)
    assert _lookup(device, first.point) == again
    assert device.source.rows == (again, _ROWS[1])
    (caution,) = device.source.data_warnings
    assert (caution.code, dict(caution.numbers)) == ("duplicate-points", {"rows_ignored": 1, "rows_disagreeing": 1})
    assert device.conditions["cautions"] == (caution,)


def test_a_failed_attempt_does_not_hide_a_measurement() -> None:
    failed = replace(_ROWS[0], minibatch_s=None, status="failed", reason="out of memory")
    throttled = replace(_ROWS[0], status="throttled")
    assert _lookup(_device(_ROWS[0], failed), failed.point) == _ROWS[0]
    assert _lookup(_device(failed, _ROWS[0]), failed.point) == _ROWS[0]
    assert _lookup(_device(throttled, failed), failed.point) == failed


def test_what_can_be_asked_for_is_listed() -> None:
    other = ProfileRow("other", "infer", 4, 0.1, gpu_mhz=318.75)
    device = _device(*_ROWS, other)
    assert workloads_of(device.source.rows) == (
        RecordedWorkload("net", "train", (1, 16)),
        RecordedWorkload("other", "infer", (4,)),
    )
    assert _control(device).space.knobs == {"gpu_mhz": (318.75, 726.75, 1300.5), "mem_mhz": (2133.0,)}


def test_a_simulated_table_stays_simulated_and_keeps_its_doubts() -> None:
    doubt = DataWarning("unit-suspect", "divide by 1000")
    header = replace(
        Header.new("profile", 1, conditions={"simulated": True, "device": "twin:orin-agx"}), warnings=(doubt,)
    )
    device = recorded_device(Profile(header, _ROWS), name="recorded:t.parquet")
    assert device.simulated
    assert device.conditions["simulated"] is True
    assert device.conditions["measured_on"] == "twin:orin-agx"
    assert device.conditions["cautions"] == (doubt,)


def test_a_mode_that_was_not_measured_cannot_be_set() -> None:
    with pytest.raises(DeviceError, match=r"the table has no mode GPU 318\.75 MHz"):
        _control(_device(*_ROWS)).apply(Mode(gpu_mhz=318.75))


def test_of_two_measurements_the_one_started_last_stands_wherever_it_is_in_the_table():
    row = ProfileRow("net", "train", 16, 0.1, gpu_mhz=300.0, power_w=20.0, started="2026-02-01T00:00:00Z")
    older = replace(row, minibatch_s=0.101, started="2026-01-01T00:00:00Z")
    table = RecordedTable.of([row, older], name="the table")
    assert table.rows == (row,)
    assert table.data_warnings[0].numbers["rows_disagreeing"] == 0  # 1 % apart
