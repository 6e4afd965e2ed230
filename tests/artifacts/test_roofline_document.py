"""Rooflines on disk: readable by people, read strictly, and the same when read back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts import io
from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.plan import Plan
from edgetune.artifacts.roofline import KernelRun, Roof, Roofline
from edgetune.errors import InputError

_FULL, _LOW = Mode(12, 2201.6, 1300.5, 3199.0), Mode(12, 2201.6, 726.75, 2133.0)
_ROOFLINE = Roofline(
    Header("roofline", 1, "2026-01-02T03:04:05Z", "edgetune 0.1.0", {}, {"device": "twin:orin-agx"}),
    "twin:orin-agx",
    (
        Roof(_FULL, "fp32", 14.7e12, 164.4e9, 17.9, 3.86e-12, 141.4e-12, 5e-14, 2.5e-12, 0.0125),
        Roof(_LOW, "fp32", 8.5e12, 103.9e9, measured=False),
    ),
    (
        KernelRun("idle", 0, "fp32", _FULL, 0.0, 0.0, 10.0, 17.9),
        KernelRun("matmul", 8192, "fp32", _FULL, 1099511627776.0, 805306368.0, 0.0748, 74.625),
        KernelRun("relu", 16384, "fp32", _LOW, 268435456.0, 2147483648.0, 0.0207),
    ),
)
_TEXT = """\
kind: roofline
version: 1
created: '2026-01-02T03:04:05Z'
tool: edgetune 0.1.0
inputs: {}
conditions:
  device: twin:orin-agx
warnings: []
device: twin:orin-agx
roofs:
- mode: {cpu_cores: 12, cpu_mhz: 2201.6, gpu_mhz: 1300.5, mem_mhz: 3199}
  precision: fp32
  flops_per_s: 14700000000000
  bytes_per_s: 164400000000
  static_w: 17.9
  flop_j: 3.86e-12
  byte_j: 1.414e-10
  flop_j_error: 5.0e-14
  byte_j_error: 2.5e-12
  residual_share: 0.0125
  measured: true
- mode: {cpu_cores: 12, cpu_mhz: 2201.6, gpu_mhz: 726.75, mem_mhz: 2133}
  precision: fp32
  flops_per_s: 8500000000000
  bytes_per_s: 103900000000
  measured: false
runs:
  columns: [kernel, size, precision, flops, bytes_moved, seconds, power_w]
  modes:
  - mode: {cpu_cores: 12, cpu_mhz: 2201.6, gpu_mhz: 1300.5, mem_mhz: 3199}
    rows:
    - [idle, 0, fp32, 0, 0, 10, 17.9]
    - [matmul, 8192, fp32, 1099511627776, 805306368, 0.0748, 74.625]
  - mode: {cpu_cores: 12, cpu_mhz: 2201.6, gpu_mhz: 726.75, mem_mhz: 2133}
    rows:
    - [relu, 16384, fp32, 268435456, 2147483648, 0.0207, null]
"""


def _read(text: str) -> Roofline:
    return io.from_bytes(text.encode(), kind="roofline", name="roofline.yaml")


def test_the_layout_is_the_documented_one() -> None:
    assert _ROOFLINE.to_bytes().decode() == _TEXT


def test_it_reads_back() -> None:
    assert _read(_TEXT) == _ROOFLINE


def test_people_may_write_peaks_by_hand() -> None:
    roofline = _read(
        "kind: roofline\nversion: 1\ndevice: mine\nroofs:\n"
        "- {mode: {gpu_mhz: 900}, precision: fp16, flops_per_s: 2e13, bytes_per_s: 1.5e11}\n"
    )
    assert roofline.roofs == (Roof(Mode(gpu_mhz=900.0), "fp16", 2e13, 1.5e11),)
    assert (roofline.runs, roofline.header.created) == ((), "unknown")


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("static_w", "static_wat", "unknown key 'roofs.0.static_wat'", "did you mean static_w?"),
        ("gpu_mhz", "gpu_hz", "unknown key 'roofs.0.mode.gpu_hz'", "did you mean gpu_mhz?"),
        ("runs:", "runz:", "unknown key 'runz'", "did you mean runs?"),
        ("  modes:", "  mods:", "unknown key 'runs.mods'", "did you mean modes?"),
        ("power_w]", "power_x]", "unknown key 'runs.columns.power_x'", "did you mean power_w?"),
        ("device: twin:orin-agx\nroofs", "roofs", "roofline.yaml has no device", "see a file"),
        ("14700000000000", "0", "roofs.0.flops_per_s is 0", "above zero"),
        ("14700000000000", "-1", "roofs.0.flops_per_s is -1", "above zero"),
        ("14700000000000", ".inf", "roofs.0.flops_per_s is inf", "finite"),
        ("14700000000000", "fast", "roofs.0.flops_per_s is 'fast'", "number"),
        ("3.86e-12", ".nan", "roofs.0.flop_j is nan", "finite number zero or more"),
        ("3.86e-12", "-1e-12", "roofs.0.flop_j is -1e-12", "finite number zero or more"),
        ("0.0748", "0", "runs.1.seconds is 0", "above zero"),
        (", 0.0748, 74.625]", ", 0.0748]", "a row of runs has 6 values for 7 columns", "write null"),
        ("726.75, mem_mhz: 2133}\n  precision", "1300.5, mem_mhz: 3199}\n  precision", "2 roofs of fp32", "leave one"),
        ("  flop_j: 3.86e-12\n", "", "has no flop_j", "give static_w, flop_j, byte_j together"),
        ("kind: roofline", "kind: plan", "roofline.yaml is a plan, not a roofline", "edgetune roofline"),
        ("version: 1", "version: 7", "newer edgetune", "upgrade"),
    ],
)
def test_what_cannot_be_is_refused(old: str, new: str, message: str, hint: str) -> None:
    assert old in _TEXT
    with pytest.raises(InputError) as caught:
        _read(_TEXT.replace(old, new, 1))
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint


def test_no_roofs_are_refused() -> None:
    with pytest.raises(InputError, match="has no roofs"):
        _read("kind: roofline\nversion: 1\ndevice: mine\nroofs: []\n")


@pytest.mark.parametrize("text", ["kind: roofline\nversion: 1\ndevice: d\nroofs: 3\n", "- kind: roofline\n"])
def test_another_shape_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        _read(text)


def test_a_constant_at_its_bound_is_zero_and_may_be() -> None:
    roof = replace(_ROOFLINE.roofs[0], byte_j=0.0, byte_j_error=None)
    assert _read(replace(_ROOFLINE, roofs=(roof,)).to_bytes().decode()).roofs == (roof,)


_positive = st.floats(min_value=1e-15, max_value=1e18)
_unsigned = st.just(0.0) | _positive
_mode = st.builds(Mode, st.none() | st.integers(1, 64), *[st.none() | st.floats(1.0, 1e5)] * 4)
_run = st.builds(
    KernelRun, st.sampled_from(["idle", "matmul", "relu"]), st.integers(0, 2**16), st.sampled_from(["fp32", "tf32"]),
    _mode, _unsigned, _unsigned, _positive, st.none() | _positive,
)  # fmt: skip
_energy = st.tuples(st.none(), st.none(), st.none()) | st.tuples(_unsigned, _unsigned, _unsigned)


@settings(deadline=None, max_examples=60)
@given(
    modes=st.lists(_mode, min_size=1, max_size=3, unique=True),
    peaks=st.tuples(_positive, _positive),
    energy=_energy,
    measured=st.booleans(),
    runs=st.lists(_run, max_size=5),
)
def test_anything_written_reads_back(
    modes: list[Mode],
    peaks: tuple[float, float],
    energy: tuple[float | None, float | None, float | None],
    measured: bool,
    runs: list[KernelRun],
) -> None:
    roofs = tuple(Roof(mode, "fp32", *peaks, *energy, measured=measured) for mode in modes)
    caution = DataWarning("energy-at-bound", "measure a copy", {"roofs": 2.0})
    header = replace(_ROOFLINE.header, warnings=(caution,))
    whole = Roofline(header, "any device", roofs, tuple(runs))
    assert _read(whole.to_bytes().decode()) == whole


def test_a_document_is_told_from_a_plan() -> None:
    assert io.document_kind(_TEXT.encode()) == "roofline"
    assert io.document_kind(b'{"version": 1, "kind": "roofline"}') == "roofline"
    assert io.document_kind(b"kind: plan\nsearch: {strategy: roofline}\n") == "plan"


def test_a_plan_asked_for_is_not_a_roofline(tmp_path: Path) -> None:
    path = tmp_path / "roofline.yaml"
    io.write(_ROOFLINE, path)
    with pytest.raises(InputError, match="is a roofline, not a plan"):
        io.read(Plan, str(path))
    assert io.read(Roofline, str(path)) == _ROOFLINE
