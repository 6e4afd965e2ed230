"""A table nobody here wrote is a profile when it has the columns; otherwise the error says which one, or which unit."""

import contextlib
import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts import io
from edgetune.artifacts.profile import Profile, ProfileRow
from edgetune.errors import InputError

_DATA = Path(__file__).parents[2] / "../shared/data"
_HEADER = "workload,task,batch_size,gpu_mhz,minibatch_s,power_w\n"
_LINE = "net,train,16,900,0.05,20\n"


def _read(text: str) -> Profile:
    return io.from_bytes(text.encode(), kind="profile", name="t.csv")


def _refused(text: str) -> tuple[str, str]:
    with pytest.raises(InputError) as caught:
        _read(text)
    assert "\n" not in caught.value.message + caught.value.hint
    return caught.value.message, caught.value.hint


def test_its_hash_is_its_provenance() -> None:
    text = _HEADER + _LINE
    header = _read(text).header
    assert header.inputs == {"table": {"name": "t.csv", "sha256": hashlib.sha256(text.encode()).hexdigest()}}
    assert (header.kind, header.version, header.created, header.tool) == ("profile", 2, "unknown", "unknown")
    assert header.warnings == ()
    assert not header.simulated


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + _HEADER + _LINE,
        (_HEADER + _LINE).replace("\n", "\r\n"),
        (_HEADER + _LINE).replace(",", ";"),
        (_HEADER + _LINE).replace(",", "\t"),
        (_HEADER + _LINE).replace(",", ", "),
        _HEADER.replace("workload", '"workload"') + _LINE.replace("net", '"net"'),
        (_HEADER + _LINE).rstrip("\n"),
        _HEADER + _LINE + "\n",
        _HEADER + _LINE.replace("16", "16.0").replace("900", "9e2"),
    ],
    ids=["bom", "crlf", "semicolon", "tab", "blanks", "quotes", "no-newline", "blank-line", "spellings"],
)
def test_spellings_of_one_table(text: str) -> None:
    assert _read(text).rows == _read(_HEADER + _LINE).rows


def test_empty_cells_are_unknown_and_further_columns_ignored() -> None:
    row = _read("mood," + _HEADER + "good,net,train,16,,0.05,\n").rows[0]
    assert row == ProfileRow("net", "train", 16, 0.05)


def test_flags_and_failed_rows() -> None:
    text = _HEADER.strip() + ",status,throttled,reason\n"
    rows = _read(text + "net,train,16,900,,,failed,,out of memory\n" + "net,train,16,900,nan,inf,drifted,true,\n").rows
    assert [(r.status, r.minibatch_s, r.power_w, r.throttled, r.reason) for r in rows] == [
        ("failed", None, None, None, "out of memory"),
        ("drifted", None, None, True, None),
    ]


def test_a_twins_table_stays_simulated_after_a_detour_through_csv() -> None:
    header = _read("device," + _HEADER + "twin:orin-agx," + _LINE).header
    assert header.simulated
    assert header.conditions["device"] == "twin:orin-agx"


@pytest.mark.parametrize(
    ("found", "cell"), [("minibatch_ms", "50"), ("latency_ms", "50"), ("time_us", "50000"), ("time (\u00b5s)", "50000")]
)
def test_a_time_in_another_unit_is_converted_and_reported(found: str, cell: str) -> None:
    profile = _read((_HEADER + _LINE).replace("minibatch_s", found).replace("0.05", cell))
    assert profile.rows == _read(_HEADER + _LINE).rows
    (caution,) = profile.header.warnings
    assert (caution.code, caution.advice) == ("column-read", f"read {found} as minibatch_s")


@pytest.mark.parametrize(
    ("found", "cell", "wanted", "value"),
    [
        ("gpu_khz", "900500", "gpu_mhz", 900.5),
        ("GPU clock (MHz)", "900.5", "gpu_mhz", 900.5),
        ("emc_freq_mhz", "2133", "mem_mhz", 2133.0),
        ("cores", "4", "cpu_cores", 4),
        ("power_cap_w", "30", "power_limit_w", 30.0),
        ("mode", "MAXN", "power_mode", "MAXN"),
        ("power_mode", "30W", "power_mode", "30W"),
    ],
)
def test_a_knob_by_another_name_or_in_another_unit_is_read(found: str, cell: str, wanted: str, value: object) -> None:
    row = _read((_HEADER + _LINE).replace("gpu_mhz", found).replace("900", cell)).rows[0]
    assert row.mode.settings() == {wanted: value}


@pytest.mark.parametrize(
    ("found", "hint"),
    [
        ("minibatch", "--column minibatch=minibatch_s"),
        ("latency", "--column latency=minibatch_s"),
        ("wrkload", "--column wrkload=workload"),
    ],
)
def test_what_was_meant_is_suggested(found: str, hint: str) -> None:
    wanted = hint.rpartition("=")[2]
    message, said = _refused((_HEADER + _LINE).replace(wanted, found))
    assert message == f"t.csv has no column {wanted}"
    assert hint in said


def test_all_missing_columns_are_told_at_once() -> None:
    message, hint = _refused("net,gpu_mhz\nresnet,900\n")
    assert message == "t.csv has no columns workload, task, batch_size, minibatch_s"
    assert "--column task=infer" in hint
    message, _ = _refused("net,latency_ms\nresnet,900\n")
    assert message.startswith("t.csv has no columns workload, task, batch_size and no knob column: one of cpu_cores, ")


@pytest.mark.parametrize("cell", ["0", "nan", "inf"])
def test_a_time_that_no_minibatch_takes_is_refused(cell: str) -> None:
    message, hint = _refused(_HEADER + _LINE + _LINE.replace("0.05", cell))
    assert message.startswith("t.csv, row 2: minibatch_s is ")
    assert "status failed" in hint


@pytest.mark.parametrize(
    ("column", "cell", "words"),
    [
        ("temp_max_c", "inf", "temp_max_c is inf"),
        ("cpu_cores", "2.5", "cpu_cores is '2.5', not a whole number"),
        ("throttled", "perhaps", "throttled is 'perhaps', not true or false"),
        ("status", "fine", "status is 'fine'"),
    ],
)
def test_an_impossible_figure_is_refused(column: str, cell: str, words: str) -> None:
    assert words in _refused(f"{_HEADER.strip()},{column}\n{_LINE.strip()},{cell}\n")[0]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("16", "16.5", "batch_size is '16.5', not a whole number"),
        ("16", "", "batch_size is empty"),
        ("train", "learn", "task is 'learn'"),
        ("0.05", "fast", "minibatch_s is 'fast', not a number"),
        ("0.05", "0.05s", "minibatch_s is '0.05s', not a number"),
    ],
)
def test_a_bad_cell_is_named_with_its_row(old: str, new: str, words: str) -> None:
    message, _ = _refused(_HEADER + _LINE + _LINE.replace(old, new, 1))
    assert message == f"t.csv, row 2: {words}" or message.startswith(f"t.csv, row 2: {words} ")


@pytest.mark.parametrize(
    ("column", "cell", "words"),
    [
        ("gpu_mhz", "1300500000", "gpu_mhz reaches 1300500000, which looks like kHz or Hz"),
        ("gpu_mhz", "1.3", "looks like GHz, not MHz"),
        ("power_w", "28900", "looks like mW, not W"),
        ("minibatch_s", "7120", "looks like milliseconds"),
    ],
)
def test_a_unit_that_is_plainly_another_one_is_refused(column: str, cell: str, words: str) -> None:
    cells = dict(zip(_HEADER.strip().split(","), _LINE.strip().split(","), strict=True)) | {column: cell}
    assert words in _refused(_HEADER + ",".join(cells.values()) + "\n")[0]


@pytest.mark.parametrize(("knob", "mhz"), [("mem_mhz", 14001), ("cpu_mhz", 6200), ("gpu_mhz", 76.8)])
def test_clocks_that_exist_are_accepted(knob: str, mhz: float) -> None:
    assert getattr(_read((_HEADER + _LINE).replace("gpu_mhz", knob).replace("900", str(mhz))).rows[0], knob) == mhz


def test_times_that_look_like_milliseconds_are_doubted_aloud() -> None:
    (caution,) = _read(_HEADER + _LINE.replace("0.05", "71.2")).header.warnings
    assert (caution.code, dict(caution.numbers)) == ("unit-suspect", {"minibatch_median_s": 71.2})


def test_a_column_without_a_unit_is_not_dropped_silently() -> None:
    (caution,) = _read((_HEADER + _LINE).replace("power_w", "power")).header.warnings
    assert caution.code == "column-ignored"
    assert "power has no unit in its name: show and search take --column power=power_w" in caution.advice


def test_epochs_are_no_minibatches() -> None:
    message, hint = _refused(_HEADER.strip() + ",epoch_s\n" + _LINE.strip().replace("0.05", "") + ",17.5\n")
    assert message == "t.csv, row 1: minibatch_s is empty though the row is not marked as failed"
    assert "epoch_s is the time of an epoch" in hint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (_HEADER, "has a header but no rows"),
        (_HEADER + "net,train\n", "not a regular CSV table"),
        (_HEADER + _LINE.strip() + ",1\n", "not a regular CSV table"),
        (_HEADER.replace("power_w", "gpu_mhz") + _LINE, "the column gpu_mhz more than once"),
        ("hello world\nand more\n", "has no columns workload, task, batch_size, minibatch_s and no knob"),
    ],
)
def test_a_table_that_is_none_is_refused(text: str, words: str) -> None:
    assert words in _refused(text)[0]


@settings(deadline=None, max_examples=80)
@given(st.text(max_size=60) | st.text(max_size=60).map(lambda tail: _HEADER + tail))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InputError):
        _read(text)


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for kind in ("profile", "trace", "ops", "plan"):
        for prefix in (b"", b"PAR1", b"kind: "):
            with pytest.raises(InputError):
                io.from_bytes(prefix + data, kind=kind, name="it")  # type: ignore[call-overload]


def _parquet(columns: dict[str, object]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


def test_parquet_of_hopeless_types_is_refused() -> None:
    columns = {"workload": ["net"], "task": ["infer"], "batch_size": [1], "gpu_mhz": [900.0]}
    with pytest.raises(InputError, match="minibatch_s"):
        io.from_bytes(_parquet({**columns, "minibatch_s": [[0.5]]}), kind="profile", name="it")
    with pytest.raises(InputError, match="times_s"):
        io.from_bytes(_parquet({**columns, "minibatch_s": [0.5], "times_s": [7]}), kind="profile", name="it")


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("flexibo/tx2_inceptionv3_400x400", 768),
        ("loudva/xavier_nx_concurrency", 270),
        ("loudva/nano_concurrency", 143),
        ("pagoda/orin_maxn_by_batch", 25),
    ],
)
def test_public_tables_are_profiles(table: str, rows: int) -> None:
    path = _DATA / f"{table}.csv"
    if not path.exists():
        pytest.skip("the public measurements are not beside this checkout")
    profile = io.read_profile(str(path))
    assert len(profile.rows) == rows
    told = ["nothing is taken from infer_per_s"] if "loudva" in table else []
    assert [caution.advice for caution in profile.header.warnings] == told
    assert all(row.minibatch_s for row in profile.rows)


@pytest.mark.parametrize("table", ["zeus/v100_epochs", "zeus/p100_epochs"])
def test_public_tables_of_epochs_are_not(table: str) -> None:
    path = _DATA / f"{table}.csv"
    if not path.exists():
        pytest.skip("the public measurements are not beside this checkout")
    with pytest.raises(InputError, match="row 1: minibatch_s is empty") as caught:
        io.read_profile(str(path))
    assert "epoch_s" in caught.value.hint


@pytest.mark.parametrize(
    ("column", "rates", "codes"),
    [
        ("fps", (20, 19.8), ["unit-suspect", "column-ignored"]),  # one over the time, whatever the batch
        ("img/s", (20, 80), ["column-ignored"]),
        ("fps", (20, "n/a"), ["column-ignored"]),
        ("qps", (20, 20), ["column-ignored"]),  # of queries, which may be minibatches
    ],
)
def test_times_of_one_sample_are_doubted_where_a_rate_shows_them(
    column: str, rates: tuple[object, object], codes: list[str]
) -> None:
    lines = [f"net,infer,{size},900,0.05,{rate}\n" for size, rate in zip((1, 4), rates, strict=True)]
    found = _read(f"workload,task,batch_size,gpu_mhz,minibatch_s,{column}\n" + "".join(lines)).header.warnings
    assert [caution.code for caution in found] == codes
