"""Artifacts written and read again are what they were; what is not an artifact is refused in two lines."""

from __future__ import annotations

import io as standard_io
import json
import sys
from dataclasses import fields, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts import io
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.ops import OpRow, OpsTable
from edgetune.artifacts.profile import PowerSample, Profile, ProfileRow
from edgetune.artifacts.trace import Trace, TraceRow
from edgetune.errors import InputError

_HEADER = Header(
    kind="profile",
    version=1,
    created="2026-01-02T03:04:05Z",
    tool="edgetune 0.1.0",
    inputs={"workload": {"name": "resnet18", "sha256": "ab" * 32}},
    conditions={"device": "host", "temperature_c": 41.5, "options": ["--seed", "0"], "simulated": False},
    warnings=(DataWarning("too-few-power-samples", "run longer", {"power_samples": 3.0}),),
)
_ROW = ProfileRow("resnet18", "train", 16, 0.0712, cpu_cores=8, gpu_mhz=727.0, power_w=28.9)

_above_zero = st.floats(min_value=1e-9, max_value=1e9, allow_nan=False)
_clock = st.floats(min_value=1e-3, max_value=1e9, allow_nan=False)
_text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
_count = st.integers(min_value=0, max_value=2**40)


def _maybe(strategy: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | strategy


_numbers = st.lists(_above_zero, max_size=4).map(tuple)
_COLUMNS = dict(
    workload=_text,
    task=st.sampled_from(["infer", "train"]),
    batch_size=st.integers(1, 2**20),
    minibatch_s=_above_zero,
    cpu_cores=_maybe(st.integers(1, 256)),
    cpu_mhz=_maybe(_clock),
    gpu_mhz=_maybe(_clock),
    mem_mhz=_maybe(_clock),
    power_limit_w=_maybe(_above_zero),
    power_mode=_maybe(st.sampled_from(["15W", "MAXN"])),
    device=_maybe(_text),
    power_w=_maybe(_above_zero),
    power_peak_w=_maybe(_above_zero),
    energy_j=_maybe(_above_zero),
    minibatch_mean_s=_maybe(_above_zero),
    minibatch_p95_s=_maybe(_above_zero),
    minibatch_ci95_low_s=_maybe(_above_zero),
    minibatch_ci95_high_s=_maybe(_above_zero),
    minibatches=_maybe(_count),
    warmups=_maybe(_count),
    power_samples=_maybe(_count),
    power_source=_maybe(_text),
    temp_max_c=_maybe(st.floats(-40, 125)),
    throttled=_maybe(st.booleans()),
    status=st.sampled_from(["ok", "failed", "throttled", "drifted"]),
    reason=_maybe(_text),
    duration_s=_maybe(_above_zero),
    started=_maybe(_text),
    times_s=_maybe(st.lists(_above_zero, max_size=4).map(tuple)),
    power_trace=_maybe(st.lists(st.builds(PowerSample, _above_zero, _above_zero), max_size=3).map(tuple)),
    power_from_s=_maybe(_above_zero),
    temp_start_c=_maybe(st.floats(-40, 125)),
    round=_maybe(st.integers(1, 2**40)),
    others_cpu_share=_maybe(st.floats(0, 1)),
    look_s=_maybe(_numbers),
    look_temp_c=_maybe(_numbers),
    look_throttle_events=_maybe(st.lists(_count, max_size=4).map(tuple)),
    look_clocks=_maybe(st.lists(_text, max_size=4).map(tuple)),
    look_clocks_mhz=_maybe(_numbers),
    idle_gap_s=_maybe(_numbers),
    idle_minibatch_s=_maybe(_numbers),
    own_value=_maybe(_above_zero),
    own_unit=_maybe(_text),
    board=_maybe(_text),
    cpu_throttled_share=_maybe(st.floats(0, 1)),
    own_ttft_s=_maybe(_above_zero),
    own_token_s=_maybe(_above_zero),
    bunched_share=_maybe(_above_zero),
    memory_peak_bytes=_maybe(_count),
    memory_device_bytes=_maybe(_count),
    memory_available_min_bytes=_maybe(_count),
    swap_in_bytes=_maybe(_count),
    build_s=_maybe(_above_zero),
    engine_bytes=_maybe(_count),
    ttft_s=_maybe(_above_zero),
    ttft_p95_s=_maybe(_above_zero),
    ttft_p99_s=_maybe(_above_zero),
    token_s=_maybe(_above_zero),
    token_p95_s=_maybe(_above_zero),
    token_p99_s=_maybe(_above_zero),
    prompt_tokens=_maybe(_above_zero),
    output_tokens=_maybe(_above_zero),
    tokens_per_s=_maybe(_above_zero),
    tokens_counted=_maybe(_text),
)
_rows = st.builds(ProfileRow, **_COLUMNS)


@settings(deadline=None, max_examples=60)
@given(st.lists(_rows, max_size=6))
def test_a_profile_reads_back_as_it_was_written(rows: list[ProfileRow]) -> None:
    profile = Profile(_HEADER, tuple(rows))
    assert io.from_bytes(profile.to_bytes(), kind="profile", name="it") == profile


def test_every_field_of_a_row_is_tried_above() -> None:
    """A column added to the profile must join the round trip."""
    assert {field.name for field in fields(ProfileRow)} == set(_COLUMNS)


def test_a_failed_row_needs_no_time_and_reads_back() -> None:
    failed = replace(_ROW, minibatch_s=None, power_w=None, status="failed", reason="out of memory")
    profile = Profile(_HEADER, (_ROW, failed))
    assert io.from_bytes(profile.to_bytes(), kind="profile", name="it") == profile


def test_an_empty_list_is_not_a_missing_one() -> None:
    rows = (replace(_ROW, times_s=()), replace(_ROW, times_s=None), replace(_ROW, power_trace=()))
    back = io.from_bytes(Profile(_HEADER, rows).to_bytes(), kind="profile", name="it")
    assert [row.times_s for row in back.rows] == [(), None, None]
    assert [row.power_trace for row in back.rows] == [None, None, ()]


def test_a_profile_of_no_rows_reads_back() -> None:
    profile = Profile(_HEADER, ())
    assert io.from_bytes(profile.to_bytes(), kind="profile", name="it") == profile


def test_a_trace_reads_back() -> None:
    rows = (
        TraceRow(
            1, "resnet18", "train", 16, gpu_mhz=727.0, minibatch_s=0.07, feasible=True, best=224.5, reason="start"
        ),
        TraceRow(2, "resnet18", "train", 16, source="known", feasible=None),
    )
    trace = Trace(replace(_HEADER, kind="trace"), rows)
    assert io.from_bytes(trace.to_bytes(), kind="trace", name="it") == trace


def test_an_operator_table_reads_back_with_its_own_fields() -> None:
    row = OpRow(
        "conv1", "Conv", "conv", "forward", "modelled", ("1x3x224x224", "64x3x7x7"), ("1x64x112x112",),
        "float32", 118013952, 236027904, 0, 639744, 3211264, 37632, 3, 64, 1, "compute",
    )  # fmt: skip
    view = replace(row, name="flatten", op_class="view", ledger="zero", inputs=(), outputs=(), bound=None)
    table = OpsTable(replace(_HEADER, kind="ops"), "resnet18", "infer", 1, "fp32", 11689512, False, (row, view))
    assert io.from_bytes(table.to_bytes(), kind="ops", name="it") == table


def test_numpy_values_in_conditions_are_written_plainly() -> None:
    import numpy as np

    header = replace(_HEADER, conditions={"a": np.float64(1.5), "b": np.arange(2), "c": Path("x"), "d": float("nan")})
    back = io.from_bytes(Profile(header, (_ROW,)).to_bytes(), kind="profile", name="it")
    assert back.header.conditions == {"a": 1.5, "b": [0, 1], "c": "x", "d": None}


def test_units_stand_in_the_field_metadata() -> None:
    schema = pq.read_schema(pa.BufferReader(Profile(_HEADER, (_ROW,)).to_bytes()))
    units = {name: (schema.field(name).metadata or {}).get(b"unit", b"").decode() for name in schema.names}
    assert units["minibatch_s"] == units["times_s"] == units["duration_s"] == "s"
    assert units["power_w"] == units["power_limit_w"] == "W"
    assert (units["energy_j"], units["gpu_mhz"], units["temp_max_c"]) == ("J", "MHz", "degC")
    assert units["workload"] == units["throttled"] == ""
    sample = schema.field("power_trace").type.value_type
    assert [sample.field(i).metadata[b"unit"] for i in range(2)] == [b"s", b"W"]


def test_the_header_is_one_json_value_under_edgetune() -> None:
    metadata = pq.read_schema(pa.BufferReader(Profile(_HEADER, (_ROW,)).to_bytes())).metadata
    head = json.loads(metadata[b"edgetune"])
    assert (head["kind"], head["version"], head["created"]) == ("profile", 1, "2026-01-02T03:04:05Z")
    assert head["warnings"] == [
        {"code": "too-few-power-samples", "advice": "run longer", "numbers": {"power_samples": 3.0}}
    ]


def test_a_dash_reads_standard_input_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Profile(_HEADER, (_ROW,)).to_bytes()
    monkeypatch.setattr(sys, "stdin", standard_io.TextIOWrapper(standard_io.BytesIO(data)))
    assert io.read_profile("-").rows == (_ROW,)


def test_a_terminal_on_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = standard_io.StringIO()
    monkeypatch.setattr(stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", stdin)
    with pytest.raises(InputError, match="standard input is a terminal"):
        io.read_profile("-")


def _refused(data: bytes, kind: str) -> str:
    with pytest.raises(InputError) as caught:
        io.from_bytes(data, kind=kind, name="it")  # type: ignore[call-overload]
    assert "\n" not in caught.value.message + caught.value.hint
    assert caught.value.hint
    return f"{caught.value.message} / {caught.value.hint}"


def _with_head(**changes: object) -> bytes:
    table = pq.read_table(pa.BufferReader(Profile(_HEADER, (_ROW,)).to_bytes()))
    head = json.loads(table.schema.metadata[b"edgetune"]) | changes
    sink = pa.BufferOutputStream()
    pq.write_table(table.replace_schema_metadata({"edgetune": json.dumps(head)}), sink)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("kind", ["profile", "trace", "ops", "plan"])
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it is empty"),
        (b" \n\n", "it is empty"),
        (b"PAR1", "truncated or damaged Parquet"),
        (b"PAR1" + b"\0" * 400, "truncated or damaged Parquet"),
        (bytes(range(256)) * 8, "neither Parquet, YAML nor CSV"),
        ("workload,task".encode("utf-16"), "neither Parquet, YAML nor CSV"),
    ],
)
def test_what_is_no_file_of_ours_is_refused(data: bytes, words: str, kind: str) -> None:
    assert words in _refused(data, kind)


def test_a_network_is_refused_with_the_command_that_reads_it() -> None:
    with pytest.raises(InputError) as refused:
        io.sniff(bytes(range(256)), name="net.onnx")
    assert "edgetune roofline ops net.onnx" in refused.value.hint


def test_every_truncation_of_a_profile_is_refused() -> None:
    data = Profile(_HEADER, (_ROW,)).to_bytes()
    for length in range(1, len(data) - 1, 97):
        _refused(data[:length], "profile")


def test_a_damaged_page_is_refused() -> None:
    data = bytearray(Profile(_HEADER, (_ROW,)).to_bytes())
    data[4:200] = b"\xff" * 196
    assert "truncated or damaged Parquet" in _refused(bytes(data), "profile")


def test_damaged_text_inside_a_sound_file_is_refused() -> None:
    whole = Profile(_HEADER, (_ROW,)).to_bytes()
    for text in (b"minibatch_s", _ROW.workload.encode()):
        assert text in whole
        data = whole.replace(text, b"\xff" * len(text))
        assert "truncated or damaged Parquet" in _refused(data, "profile")


def test_another_kind_says_which_it_is() -> None:
    trace = Trace(replace(_HEADER, kind="trace"), ()).to_bytes()
    assert "it is a trace, not a profile / give it a profile, as `edgetune profile` writes" in _refused(
        trace, "profile"
    )
    assert "it is a trace, not a plan" in _refused(trace, "plan")
    assert "it is a profile, not a trace" in _refused(Profile(_HEADER, ()).to_bytes(), "trace")
    assert "it is a plan, not a profile" in _refused(b"kind: plan\nversion: 1\n", "profile")
    for figures, of in ((b'{"kind": "benchmark"}', "bench"), (b'{"kind": "energy"}', "energy")):
        assert f"figures of `edgetune schedule kernels {of}`, which no command reads" in _refused(figures, "plan")
    assert "unknown kind ['energy']" in _refused(b"kind: [energy]\n", "plan")
    assert "is a file of tenants, not a plan" in _refused(b"kind: tenants\nversion: 1\ntenants: []\n", "plan")
    assert "unknown kind 'recipe'" in _refused(b"kind: recipe\n", "profile")


def test_a_newer_version_is_one_clear_error() -> None:
    assert "written by a newer edgetune: profile version 99, known up to 2" in _refused(
        _with_head(version=99), "profile"
    )
    assert "written by a newer edgetune: plan version 99" in _refused(b"kind: plan\nversion: 99\nx: 1\n", "plan")


@pytest.mark.parametrize("version", [0, -1, "1", None, True, 1.0])
def test_a_version_that_is_none_is_refused(version: object) -> None:
    assert "no valid version" in _refused(_with_head(version=version), "profile")


def test_a_damaged_header_is_refused() -> None:
    assert "damaged header: created" in _refused(_with_head(created=3), "profile")
    assert "damaged header: warnings" in _refused(_with_head(warnings={"a": 1}), "profile")


def test_a_header_may_have_keys_from_the_future() -> None:
    assert io.from_bytes(_with_head(mood="good"), kind="profile", name="it").header == _HEADER


def test_a_foreign_parquet_is_a_profile_but_nothing_else() -> None:
    sink = pa.BufferOutputStream()
    table = {"workload": ["a"], "task": ["infer"], "batch_size": [4.0], "minibatch_s": [0.5], "gpu_mhz": [900]}
    pq.write_table(pa.table(table), sink)
    data = bytes(sink.getvalue())
    profile = io.from_bytes(data, kind="profile", name="it")
    assert profile.rows == (ProfileRow("a", "infer", 4, 0.5, gpu_mhz=900.0),)
    assert "edgetune did not write it" in _refused(data, "trace")
    assert "edgetune did not write it" in _refused(data, "ops")


def test_a_missing_file_suggests_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "host.parquet").write_bytes(b"")
    with pytest.raises(InputError, match="does not exist") as caught:
        io.read_profile(str(tmp_path / "hots.parquet"))
    assert caught.value.hint == f"did you mean {tmp_path / 'host.parquet'}?"


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        io.read_profile(str(tmp_path))


def test_a_name_no_file_can_have_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        io.read_profile("a\0b")
