"""Artifacts written and read again are what they were; what is not an artifact is refused in two lines."""

import io as standard_io
import json
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edgetune.artifacts import io
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.profile import Profile, ProfileRow
from edgetune.artifacts.trace import Trace
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


def test_a_failed_row_needs_no_time_and_reads_back() -> None:
    failed = replace(_ROW, minibatch_s=None, power_w=None, status="failed", reason="out of memory")
    profile = Profile(_HEADER, (_ROW, failed))
    assert io.from_bytes(profile.to_bytes(), kind="profile", name="it") == profile


def test_numpy_values_in_conditions_are_written_plainly() -> None:
    import numpy as np

    header = replace(_HEADER, conditions={"a": np.float64(1.5), "b": np.arange(2), "c": Path("x"), "d": float("nan")})
    back = io.from_bytes(Profile(header, (_ROW,)).to_bytes(), kind="profile", name="it")
    assert back.header.conditions == {"a": 1.5, "b": [0, 1], "c": "x", "d": None}


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


@pytest.mark.parametrize("kind", ["profile", "plan"])
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
