"""What is chosen of a Jetson in its name."""

import contextlib
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.devices.jetson.options import JetsonOptions, parse_jetson_options
from edgetune.errors import InputError


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("jetson", JetsonOptions()),
        ("jetson?", JetsonOptions()),
        ("jetson?beyond-caps=on", JetsonOptions(beyond_caps=True)),
        ("jetson?beyond-caps=off", JetsonOptions()),
        ("jetson?rails=VDD_IN", JetsonOptions(rails="VDD_IN")),
        ("jetson?rails=VDD_GPU_SOC+VDD_CPU_CV&beyond-caps=on", JetsonOptions(True, "VDD_GPU_SOC+VDD_CPU_CV")),
        ("jetson?rails=a%26b", JetsonOptions(rails="a&b")),
        ("jetson?source=jtop", JetsonOptions(source="jtop")),
        ("jetson?source=board&&", JetsonOptions()),
    ],
)
def test_options_follow_a_question_mark(name, choices):
    assert parse_jetson_options(name) == choices


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("jetson?rail=VDD_IN", "unknown option 'rail'"),
        ("jetson?beyond-caps", "on or off, not ''"),
        ("jetson?beyond-caps=yes", "on or off, not 'yes'"),
        ("jetson?beyond-caps=on&beyond-caps=off", "gives beyond-caps twice"),
        ("jetson?rails=", "none are named"),
        ("jetson?rails=VDD_IN&source=jtop", "jtop chooses its own"),
        ("jetson?source=sensor", "board or jtop, not 'sensor'"),
        ("jetson:0", "unknown device 'jetson:0'"),
        ("orin", "unknown device 'orin'"),
    ],
)
def test_what_is_no_option_is_refused_with_an_example(name, words):
    with pytest.raises(InputError, match=words.replace("?", r"\?")) as refused:
        parse_jetson_options(name)
    assert "jetson" in refused.value.hint


@given(st.text(min_size=1), st.booleans())
def test_any_name_of_a_rail_survives_quoting(rails, beyond):
    text = f"jetson?rails={quote(rails, safe='+')}&beyond-caps={'on' if beyond else 'off'}"
    assert parse_jetson_options(text) == JetsonOptions(beyond, rails)


@given(st.text(max_size=40))
def test_anything_else_is_choices_or_an_input_error(text):
    with contextlib.suppress(InputError):
        assert isinstance(parse_jetson_options(f"jetson?{text}"), JetsonOptions)
