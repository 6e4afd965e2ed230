"""Traces of requests as other people publish them, and what is wrong with some."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts.arrivals import read_arrivals
from edgetune.errors import InputError

DATA = Path(__file__).parents[2] / "../shared/data/arrivals"


@pytest.mark.parametrize(("text", "values"), [
    ("arrival_s,tokens\n10.5,3\n11,9\n11,2\n", (0, 0.5, 0.5)),
    ("tenant,arrived_s\na,0.5\na,2\n", (0, 1.5)),
    ("timestamp_ms,input_length\n0,1\n3000,4\n", (0, 3)),
    ("id,time_s\na,5\nb,6.25\n", (0, 1.25)),
    ("3\n4\n4.5\n", (0, 1, 1.5)),
    ("3,x\n\n4,y\n", (0, 1)),
    ("\ufefftime_s\n1\n2\n", (0, 1)),
    ("id;time_s\n7;0,000\n8;0,025\n", (0, 0.025)),
    ('time_s\n"0,5"\n"1.250,75"\n', (0, 1250.25)),
])  # fmt: skip
def test_times_count_from_the_first(text, values, tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(text)
    found = read_arrivals(str(path))
    assert found.values == pytest.approx(values)
    assert not found.rates


def test_rates_are_taken_in_turn(tmp_path):
    path = tmp_path / "rates.csv"
    path.write_text("minute,rate_per_s\n0,60\n5,45.5\n10,0\n")
    found = read_arrivals(str(path))
    assert (found.values, found.rates) == ((60, 45.5, 0), True)


@pytest.mark.parametrize(("text", "told"), [
    ("", "empty|no requests"),
    ("\n\n", "no requests|empty"),
    ("time_s\n", "no requests"),
    ("when,what\n1,2\n", "no column of arrivals; it has when, what"),
    ("time_s,arrival_ms\n1,2\n", "several columns"),
    ("time_s\n1\n3\n2\n", "line 4: a request at 2 s follows one at 3 s"),
    ("time_s\n-1\n", "line 2: '-1' is neither"),
    ("time_s\n1\nnan\n", "line 3: 'nan'"),
    ("a,time_s\n1,2\n1\n", "line 3: nothing"),
    ("rate_per_s\n60\n-3\n", "'-3'"),
    ("time_s\n0,000\n0,025\n", "line 2: '0,000' has more cells than the header"),
    ("id,time_s\n7,0,025\n", "line 2: '7,0,025' has more cells"),
    ("0,000\n0,025\n", "line 1: '0,000' has more cells"),
    ('time_s\n"1,000"\n"2,000"\n', "may be a decimal one"),
    ("time_s\n\n0\n0,025\n", "line 4: '0,025'"),
])  # fmt: skip
def test_bad_traces_are_told_by_line(text, told, tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=told):
        read_arrivals(str(path))


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30))
def test_any_ordered_times_come_back(tmp_path_factory, times):
    path = tmp_path_factory.mktemp("trace") / "trace.csv"
    times = sorted(times)
    path.write_text("time_s\n" + "".join(f"{time!r}\n" for time in times))
    assert read_arrivals(str(path)).values == pytest.approx([time - times[0] for time in times])


@pytest.mark.skipif(not DATA.is_dir(), reason="the public traces are not here")
@pytest.mark.parametrize(
    ("name", "count"), [("azure_llm_conv_2023.csv", 19_366), ("mooncake_conversation.csv", 12_031)]
)
def test_public_traces(name, count):
    found = read_arrivals(str(DATA / name))
    assert abs(len(found.values) - count) <= 1
    assert 3300 < found.values[-1] < 3700
