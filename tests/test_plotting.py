"""What figures share: the same bytes twice, no date, axes that spread, names that stay on the paper."""

from dataclasses import dataclass
from types import SimpleNamespace

import matplotlib
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from edgetune import limits
from edgetune.errors import InputError
from edgetune.plotting import figure_file
from edgetune.plotting.figure_file import embedded_svg, figure_bytes, format_of
from edgetune.plotting.gantt import first_turn, longest_note, turn_notes, zoom_time
from edgetune.plotting.labels import left_out_of, note_left_out
from edgetune.plotting.style import scale_axis, spread_out, styled


@dataclass
class Row:
    policy: str
    turn: int
    finished_s: float = 1.0
    arrived_s: float | None = None


def small():
    with styled():
        figure = Figure(figsize=(3, 2), layout="constrained")
        axes = figure.subplots()
        axes.plot([1, 2, 3], [3, 1, 2], marker="o")
        axes.set_xlabel("step")
    return figure


def test_on_a_page_lines_are_above_the_grid():
    figure = small()
    zoom_time(figure.axes[0])
    svg, zoomed = embedded_svg(figure, "small", "", "")
    assert zoomed
    assert svg.rindex('class="tick"') < svg.index('class="data"'), "a grid line would hide a line at a round number"


@pytest.mark.parametrize(("form", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_the_same_figure_is_the_same_bytes(form, start):
    first, second = figure_bytes(small(), form), figure_bytes(small(), form)
    assert first == second
    assert first.startswith(start)


def test_the_settings_of_the_user_neither_count_nor_are_lost():
    plain = figure_bytes(small(), "svg")
    with matplotlib.rc_context({"font.size": 30.0, "svg.hashsalt": None}):
        assert figure_bytes(small(), "svg") == plain
        assert matplotlib.rcParams["font.size"] == 30.0


@pytest.mark.parametrize("name", ["figure.jpg", ".svg"])
def test_other_formats_are_refused(name):
    with pytest.raises(InputError, match="a figure is"):
        format_of(name)


@pytest.mark.parametrize(
    ("values", "scale"), [([1, 2, 9], "linear"), ([1, 50], "log"), ([0, 50], "linear"), ([], "linear")]
)
def test_an_axis_is_logarithmic_where_values_span_much(values, scale):
    axes = small().axes[0]
    assert spread_out(axes.yaxis, values) is (scale == "log")
    assert (axes.get_yscale(), axes.get_xscale()) == (scale, "linear")


def test_an_axis_that_spans_little_has_more_ticks_once_it_is_asked_to_be_logarithmic():
    axes = small().axes[0]
    assert spread_out(axes.yaxis, [2.1, 9.0], above=4.0)
    axes.set_ylim(2.1, 9.0)
    shown = [tick for tick in axes.yaxis.get_major_locator().tick_values(2.1, 9.0) if 2.1 <= tick <= 9.0]
    assert shown == pytest.approx([3, 4, 5, 7])


def test_what_a_figure_leaves_out_is_below_it_and_can_be_told():
    figure = Figure(figsize=(4.0, 3.0), layout="constrained")
    figure.subplots()
    assert left_out_of(figure) == []
    note_left_out(figure, [])
    assert left_out_of(figure) == []
    rows = [Row(name, turn) for name in ("a$b$", "c", "d") for turn in (0, 1, 2)]
    drawn = first_turn(rows, "policy", None, of="timeline")
    notes = [*turn_notes(rows, drawn, "policy", "--view gantt:POLICY"), "x " * 80]
    assert notes[:2] == ["policy a$b$ is drawn; not drawn: c, d (--view gantt:POLICY)", "the first of 3 turns is drawn"]
    note_left_out(figure, notes)
    assert left_out_of(figure) == notes
    assert b"not drawn: c, d" in figure_bytes(figure, "svg")
    box = figure._supxlabel.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.x1


def test_both_ends_of_a_short_request_late_in_a_run_are_told():
    request = SimpleNamespace(arrived_s=0.1, finished_s=0.100163, task="a")
    assert longest_note([request], "task") == ["the longest request of a took 163 µs, from 0.1 s to 0.100163 s"]
    request = SimpleNamespace(arrived_s=0.1, finished_s=0.2, task="a")
    assert longest_note([request], "task") == ["the longest request of a took 100 ms, from 100 ms to 200 ms"]


def test_names_are_drawn_literally_and_visibly(recwarn):
    from matplotlib.figure import Figure

    from edgetune.plotting.labels import name_in_lines
    from edgetune.plotting.style import styled

    with styled():
        figure = Figure()
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], label="$\\frac$ \x1b[2J")
        axes.set_xticks([0, 1], ["tick\u202e$\\sqrt$", "\u4e2d"])
        axes.set_title("\x07$\\undefined{$")
        axes.legend()
    drawn = figure_bytes(figure, "svg").decode()
    assert all(raw not in drawn for raw in ("\x1b", "\x07", "\u202e"))
    assert axes.get_title() == r"\x07$\undefined{$"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["tick\\u202e$\\sqrt$", "\u4e2d"]
    assert len(name_in_lines("x" * 10_000, 20).splitlines()) <= 6
    assert not recwarn.list


def test_a_figure_of_too_many_marks_is_refused_before_it_is_drawn():
    figure = Figure()
    axes = figure.subplots()
    axes.plot(range(1000), range(1000))
    axes.bar(range(200), range(200))
    assert figure_file.figure_bytes(figure, "svg")
    with limits.limited(figure_items=1000), pytest.raises(InputError, match="more than the limit figure_items"):
        figure_file.figure_bytes(figure, "svg")


def test_a_drawing_ends_within_its_memory():
    refused = pytest.raises(InputError, match="the drawing takes more bytes of memory than the limit figure_bytes")
    with limits.limited(figure_bytes=16 << 20), refused, figure_file.bounded():
        bytearray(256 << 20)


def test_a_picture_that_is_too_tall_to_read_is_refused_with_what_to_take_instead():
    figure = Figure(figsize=(4.0, 10.5))
    figure.subplots()
    for form in ("svg", "png"):
        with pytest.raises(InputError, match="2100 pixels high") as caught:
            figure_bytes(figure, form)
        assert "--plot FIGURE.html" in str(caught.value.hint)
    assert figure_bytes(figure, "svg", text_as_text=True), "a page scrolls"


@given(st.lists(st.floats(1e-3, 1e3), min_size=1))
def test_an_axis_begins_at_zero_or_says_that_it_is_logarithmic(values):
    axes = Figure().subplots()
    scale_axis(axes.xaxis, "time (ms)", values)
    low, high = axes.get_xlim()
    assert low <= min(values) <= max(values) <= high
    assert (axes.get_xscale() == "log") is (axes.get_xlabel() == "time (ms, log)")
    assert axes.get_xscale() == "log" or low == 0
