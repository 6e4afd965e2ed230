"""Every kind of artifact in every format: the ending says which, and what is written reads back."""

import csv
import json
from pathlib import Path

import pytest
import yaml

from edgetune.artifacts import io
from edgetune.artifacts.columns import columns_of
from edgetune.artifacts.header import Header
from edgetune.artifacts.io import read_any
from edgetune.artifacts.kinds import ENDINGS, KINDS, class_of, current_version, format_of
from edgetune.artifacts.layer_costs import LayerCostRow, LayerCosts
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, PowerSample, Profile, ProfileRow
from edgetune.artifacts.trace import Trace
from edgetune.errors import InputError

GOLDEN = Path(__file__).parents[1] / "golden"
FROM_CSV = ("profile", "convergence", "layer_costs")
"""Kinds of which a CSV that says nothing of its kind is read."""
CASES = [(kind, ending) for kind in KINDS for ending in ENDINGS[kind]]


def golden(kind):
    (path,) = GOLDEN.glob(f"{kind}-v{current_version(kind)}.*")
    return read_any(str(path))


@pytest.mark.parametrize(("kind", "ending"), CASES)
def test_a_file_is_what_its_name_says_and_reads_back(kind, ending, tmp_path):
    artifact, path = golden(kind), tmp_path / f"out{ending}"
    io.write(artifact, path)
    data = path.read_bytes()
    if ending == ".csv":
        header, *rows = csv.reader(data.decode().splitlines())
        assert tuple(header) == tuple(column.name for column in columns_of(class_of(kind).ROW))
        assert rows
        if kind in FROM_CSV:
            assert io.from_bytes(data, kind=kind, name="out.csv").rows == artifact.rows
        return
    if ending == ".parquet":
        assert data.startswith(b"PAR1")
    else:
        assert (json.loads if ending == ".json" else yaml.safe_load)(data)["kind"] == kind
    again = read_any(str(path))
    assert again.header == artifact.header
    assert again.to_bytes() == artifact.to_bytes()
    assert io.from_bytes(data, kind=kind, name="out").header.kind == kind


@pytest.mark.parametrize(("rows", "times", "plain"), [(3, 10_000, False), (30, 140_000, True)])
def test_equal_raw_times_of_a_large_sweep_read_back(rows, times, plain):
    mode, times_s = Mode(gpu_mhz=300.0), (0.4e-3,) * times
    made = [ProfileRow.at(Point("net", "infer", size + 1, mode), 0.4e-3, times_s=times_s) for size in range(rows)]
    table = Profile(golden("profile").header, tuple(made))
    data = table.to_bytes()
    assert (len(data) > 8 * rows * times) == plain
    assert io.from_bytes(data, kind=Profile, name="p.parquet").rows == table.rows


def test_a_name_without_an_ending_and_a_device_get_the_usual_format(tmp_path):
    assert (format_of("out", "run"), format_of("/dev/null", "plan"), format_of("OUT.CSV", "run")) == (
        "parquet", "yaml", "csv",
    )  # fmt: skip
    folder = tmp_path / "a.csv"
    folder.mkdir()
    assert format_of(folder / "run", "run") == "parquet"


def test_a_profile_with_everything_csv_can_say_is_the_same_again():
    times = tuple(0.1 + 1e-7 * number for number in range(100_000))  # a row of over a megabyte
    rows = (
        ProfileRow(
            'a "b", c;d', "train", 16, 0.1 + 0.2, 8, 1190.4, 726.75, 2133.0, power_w=1 / 3, throttled=False, round=2,
            reason="first line\nsecond, line", times_s=times,
            power_trace=(PowerSample(0.0, 28.8), PowerSample(1e-9, 29.0)),
        ),
        ProfileRow("ü", "infer", 1, None, gpu_mhz=5e2, status="failed", reason="out of memory", times_s=()),
    )  # fmt: skip
    profile = Profile(Header.new("profile", 2), rows)
    assert io.from_bytes(profile.to_bytes("csv"), kind="profile", name="x.csv").rows == rows
    assert io.from_bytes(profile.to_bytes("json"), kind="profile", name="x.json") == profile


def test_layers_that_wait_for_none_are_no_chain_after_csv():
    rows = tuple(
        LayerCostRow("a", f"l{index}", "other", 0, 1, 0.0, 1.0, index, after)
        for index, after in enumerate([(), (), (0, 1)])
    )
    costs = LayerCosts(Header.new("layer_costs", 1), rows)
    assert io.from_bytes(costs.to_bytes("csv"), kind="layer_costs", name="x").rows == rows


def test_a_table_without_rows_stays_one():
    trace = Trace(Header.new("trace", current_version("trace")), ())
    assert io.from_bytes(trace.to_bytes("json"), kind="trace", name="x") == trace
    assert trace.to_bytes("csv").decode().startswith("step,")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"kind": "profile", "rows": [', "x.json, line 1"),
        ('{"kind": "profile", "rows": [1]}', "rows is no list of objects"),
        ('{"kind": "profile", "version": 2, "rows": [{"workload": 1}, {"workload": "a"}]}', "values of several types"),
        ('{"kind": "run", "version": 1, "rows": []}', "is a run, not a profile"),
        ('{"rows": [{"workload": "a"}]}', "has no columns task"),
    ],
)
def test_damaged_json_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        io.from_bytes(text.encode(), kind="profile", name="x.json")


@pytest.mark.parametrize("cell", ["0.1 0.2", "3"])
def test_a_list_that_is_none_is_refused_with_its_row(cell):
    head = "workload,task,batch_size,minibatch_s,gpu_mhz,times_s"
    text = f'{head}\na,infer,1,0.1,500,\na,infer,2,0.1,500,"{cell}"\n'
    with pytest.raises(InputError, match=r"row 2: times_s is .*, not a list"):
        io.from_bytes(text.encode(), kind="profile", name="x.csv")
