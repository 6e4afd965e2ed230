"""Quantities as people write them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune import units
from edgetune.errors import InputError


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (units.parse_power_w, "30W", 30.0),
        (units.parse_power_w, " 4500 mW ", 4.5),
        (units.parse_power_w, "5e-1 kW", 500.0),
        (units.parse_time_s, "80ms", 0.08),
        (units.parse_time_s, "10m", 600.0),
        (units.parse_time_s, "7us", 7e-6),
        (units.parse_time_s, "1.5h", 5400.0),
        (units.parse_bytes, "512MiB", 512 * 2**20),
        (units.parse_bytes, "1GB", 10**9),
        (units.parse_rate_per_s, "60/s", 60.0),
        (units.parse_rate_per_s, "90/min", 1.5),
        (units.parse_share, "5%", 0.05),
        (units.parse_share, "0.05", 0.05),
        (units.parse_share, "0", 0.0),
    ],
)
def test_reads_what_people_write(parse, text, expected):
    assert parse(text) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "text", ["30", "", "W", "thirty W", "30w", "30MW", "30 W W", "-3W", "0W", "nanW", "infW", "3 0W"]
)
def test_refuses_what_is_not_a_power_and_shows_how_to_write_one(text):
    with pytest.raises(InputError) as refusal:
        units.parse_power_w(text, what="--power-budget")
    assert "--power-budget" in refusal.value.message
    assert "30W" in refusal.value.hint
    assert "\n" not in refusal.value.message + refusal.value.hint


def test_a_decimal_comma_is_refused_with_the_reason():
    with pytest.raises(InputError, match="is not a quantity") as refused:
        units.parse_power_w("30,5W")
    assert "decimals follow a point" in refused.value.hint


@pytest.mark.parametrize("text", ["101%", "-1%", "1.5", "nan", "five", ""])
def test_refuses_a_share_outside_zero_to_one(text):
    with pytest.raises(InputError, match="between 0 and 100"):
        units.parse_share(text)


@given(st.floats(1e-6, 1e6), st.sampled_from(sorted(units.POWER)))
def test_a_written_power_reads_back(value, unit):
    assert units.parse_power_w(f"{value!r}{unit}") == pytest.approx(value * units.POWER[unit])


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0123, "s", "12.3 ms"),
        (28.9, "W", "28.9 W"),
        (0.0, "J", "0 J"),
        (999.96, "W", "1 kW"),
        (3.2e-10, "s", "320 ps"),
        (1.47e13, "FLOP/s", "14.7 TFLOP/s"),
    ],
)
def test_writes_a_figure_with_its_prefix(value, unit, text):
    assert units.format_si(value, unit) == text


@given(st.floats(1e-8, 1e14))
def test_a_formatted_figure_is_within_its_digits(value):
    number, prefixed = units.format_si(value, "s", digits=4).split(" ")
    factor = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "ks": 1e3, "Ms": 1e6, "Gs": 1e9, "Ts": 1e12}[prefixed]
    assert math.isclose(float(number) * factor, value, rel_tol=6e-4)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0123, "12.3 ms"),
        (59.0, "59 s"),
        (125.0, "2 m 05 s"),
        (3700.0, "1 h 01 m"),
        (59.9, "1 m 00 s"),
        (3599.9, "1 h 00 m"),
    ],
)
def test_writes_a_duration_to_read_at_a_glance(seconds, text):
    assert units.format_duration(seconds) == text


def test_writes_bytes_in_binary_units():
    assert units.format_bytes(512 * 2**20) == "512 MiB"
    assert units.format_bytes(100) == "100 B"
    assert units.format_bytes(3 * 2**40) == "3 TiB"
