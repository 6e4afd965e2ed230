"""Figures and the page of rooflines: every point where it belongs, filled or hollow, and nothing run as code."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts.header import Header
from edgetune.artifacts.layers import LayerTime, LayerTimes
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.ops import OpRow, OpsTable
from edgetune.artifacts.roofline import Roof, Roofline
from edgetune.cli.plot import draw, drawing_of
from edgetune.errors import InputError
from edgetune.plotting.labels import LabelLayout
from edgetune.stages.roofline.balance import balance, work_time
from edgetune.stages.roofline.figures.figure_data import balance_points, energy_curve, time_curve
from edgetune.stages.roofline.figures.points import PlacedNetwork, layer_points, network_point, series_of
from edgetune.stages.roofline.figures.roofs import roof_figure
from edgetune.stages.roofline.layers import join
from edgetune.stages.roofline.placement import place
from edgetune.workflows.figures import choose_view
from edgetune.workflows.roofline.option_values import Placed
from edgetune.workflows.roofline.sections import placed_page

MODE = Mode(12, 2201.6, 1300.5, 3199.0)
ORIN = Roof(MODE, "fp32", 14.7e12, 164.4e9, 17.9, 3.86e-12, 141.4e-12, 0.1e-12, 4e-12)
"""AGX Orin at MAXN as published (Pagoda, 2025): balance 89.4 in time, 39.8 in energy, 36.6 without static power."""
GRID = tuple(
    replace(ORIN, mode=replace(MODE, gpu_mhz=gpu, mem_mhz=mem), flops_per_s=1e10 * gpu, bytes_per_s=5e7 * mem,
            measured=gpu != 700.0)
    for gpu in (300.0, 700.0, 1300.5) for mem in (665.6, 3199.0)
)  # fmt: skip


def roofline_page(placed: PlacedNetwork, device: str = "orin") -> bytes:
    roofline = Roofline(Header("roofline", 1, "", ""), device, (ORIN,))
    ops = replace(table(), workload=placed.placement.workload)
    return placed_page([Placed(roofline, ORIN, (ops,), (placed.placement,), (None,), placed.layers)])


def row(name: str, flops: int, moved: int, op: str = "Conv") -> OpRow:
    return OpRow(name, op, "conv", "forward", "modelled", (), (), "float32", flops // 2, flops, 0, moved, 0, 0)


ROWS = (row("conv", 4_000_000_000, 10_000_000), row("relu", 20_000_000, 80_000_000, "Relu"), row("copy", 0, 10_000_000))
"""400 and 0.25 FLOP per byte, and one that computes nothing; 40.2 as a whole."""


def table(rows: Sequence[OpRow] = ROWS, batch_size: int = 1, precision: str = "fp32", name: str = "net") -> OpsTable:
    return OpsTable(Header("ops", 1, "", ""), name, "infer", batch_size, precision, 0, False, tuple(rows))


def network(roof: Roof = ORIN, *, batch: int = 1, measured_s: float | None = None, name: str = "net") -> PlacedNetwork:
    rows = [replace(each, flops=each.flops * batch, bytes_read=each.bytes_read + 100 * batch) for each in ROWS]
    return PlacedNetwork(place(table(rows, batch, roof.precision, name), roof, measured_s=measured_s))


def layered(rows: Sequence[OpRow] = ROWS, name: str = "net", *, at_roof: bool = False) -> PlacedNetwork:
    def took(each: OpRow) -> float:
        return work_time(ORIN, each.flops, each.bytes_moved) if at_roof else 1e-3

    times = tuple(LayerTime(each.name, each.op, "forward", (each.name,), took(each), "node") for each in rows)
    of = table(rows, name=name)
    found = join(of, LayerTimes("a profiler", False, 9, 1e-3 * (len(rows) + 1), times))
    return PlacedNetwork(place(of, ORIN, measured_s=4e-3), found, measured_j=0.1)


def drawn(figure: Any) -> list[Any]:
    """Draw a figure wholly, so that a warning of any part is an error, and return its panels."""
    figure.draw_without_rendering()
    return list(figure.axes)


def legend(figure: Any) -> str:
    return "\n".join(text.get_text() for text in figure.legends[0].get_texts()).replace("\N{NO-BREAK SPACE}", " ")


def written(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def markers(axes: Any, zorder: float) -> list[tuple[tuple[float, float], bool]]:
    """Return places of all markers of one layer of the figure, and whether they are filled in a colour."""
    groups = [found for found in axes.collections if found.get_zorder() == zorder and len(found.get_offsets())]
    return [
        (tuple(place), bool(len(group.get_facecolor())) and tuple(group.get_facecolor()[0][:3]) != (1.0, 1.0, 1.0))
        for group in groups for place in group.get_offsets().tolist()
    ]  # fmt: skip


def test_both_panels_share_one_axis_of_intensity_and_name_the_published_balance_points() -> None:
    time, energy = drawn(roof_figure([ORIN]))
    assert time.get_xlim() == energy.get_xlim()
    assert (time.get_shared_x_axes().joined(time, energy), energy.get_xlabel()) == (True, "intensity (FLOP/byte, log)")
    assert written(time) == ["balance in time 89.4"]
    assert written(energy) == ["balance in energy 39.8"]
    assert (time.get_ylabel(), energy.get_ylabel()) == ("performance (FLOP/s, log)", "efficiency (FLOP/J, log)")


def test_a_network_stands_at_its_intensity_in_both_panels() -> None:
    figure = roof_figure([ORIN], [network(measured_s=2e-3)])
    time, energy = drawn(figure)
    flops, moved = 4_020_000_000, 100_000_300
    (at, filled), (energy_at, energy_filled) = markers(time, 4)[0], markers(energy, 4)[0]
    assert at == pytest.approx((flops / moved, flops / 2e-3))
    assert energy_at == pytest.approx((flops / moved, flops / (3.86e-12 * flops + 141.4e-12 * moved + 17.9 * 2e-3)))
    assert (filled, energy_filled) == (True, False)  # its time was measured, its energy follows from it
    assert "filled: measured\nhollow: predicted" in legend(figure)


def test_measured_layers_are_filled_in_time_and_hollow_in_energy() -> None:
    one = layered()
    figure = roof_figure([ORIN], [one], layers_of=one)
    time, energy = drawn(figure)
    assert [filled for _, filled in markers(time, 2.4)] == [True, True]
    assert [filled for _, filled in markers(energy, 2.4)] == [False, False]
    assert markers(time, 2.4)[0][0] == pytest.approx((0.25, 20e6 / 1e-3))
    found = layer_points(one)
    assert found is not None
    assert [(point.layer, point.share) for point in found.points] == [("conv", 0.25), ("relu", 0.25)]


def test_words_hide_neither_each_other_nor_markers() -> None:
    rows = [row(f"layer{i}.{i % 7}.conv", 10**7 * (1 + i % 23), 10**5 * (1 + i % 11)) for i in range(200)]
    crowd = layered(rows, at_roof=True)
    figure = roof_figure([ORIN], [crowd], layers_of=crowd)
    for axes in drawn(figure):
        boxes = [text.get_window_extent() for text in axes.texts if text.get_text()]
        assert len(boxes) >= 3
        assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
        assert all(axes.get_window_extent().contains(*corner) for box in boxes for corner in box.corners())


@given(st.lists(st.tuples(st.floats(0, 300), st.floats(0, 200), st.floats(2, 40)), max_size=25))
@settings(deadline=None, max_examples=60)
def test_a_paper_gives_no_place_twice(labels: list[tuple[float, float, float]]) -> None:
    paper = LabelLayout((0.0, 0.0, 300.0, 200.0), [], [], [])
    for x, y, wide in labels:
        paper.place((x, y), (wide, 4.0), 3.0)
    for index, (left, bottom, right, top) in enumerate(paper.words):
        assert 0 <= left < right <= 300
        assert 0 <= bottom < top <= 200
        for other in paper.words[:index]:
            assert right <= other[0] or other[2] <= left or top <= other[1] or other[3] <= bottom


@given(st.floats(1e9, 1e15), st.floats(1, 1000), st.floats(0, 100), st.floats(0.01, 500), st.floats(0.01, 500))
@settings(deadline=None, max_examples=60)
def test_balance_points_lie_on_their_curves(
    peak: float, intensity: float, static_w: float, flop_w: float, byte_w: float
) -> None:
    roof = Roof(MODE, "fp32", peak, peak / intensity, static_w, flop_w / peak, byte_w * intensity / peak)
    for point in balance_points(roof):
        curve = time_curve if point.kind == "time" else energy_curve
        found = curve(roof, point.flop_per_byte, 2 * point.flop_per_byte)
        assert found[0] == pytest.approx((point.flop_per_byte, point.height))
        if point.kind == "energy":
            top = balance(roof).energy
            assert top is not None
            assert point.height == pytest.approx((top.peak_flops_per_j or 0) / 2)


def test_roofs_that_cannot_be_drawn_are_refused() -> None:
    with pytest.raises(InputError, match="no roof to draw"):
        roof_figure([])
    still = PlacedNetwork(place(table([row("copy", 0, 10)]), ORIN))
    assert (network_point(still, "n0"), series_of([still])) == (None, [])
    drawn(roof_figure([ORIN], [still], layers_of=layered([row("copy", 0, 10)])))


class _Page(HTMLParser):
    """What a browser would find in a page."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.titles: list[str] = []
        self._inside = ""
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "title":
            self.titles.append("")

    def handle_data(self, data: str) -> None:
        if self._inside == "title":
            self.titles[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def of(self, cls: str) -> list[dict[str, str | None]]:
        return [attributes for _, attributes in self.tags if attributes.get("class") == cls]


def test_the_page_has_a_row_for_each_mark_and_loads_nothing() -> None:
    data = roofline_page(layered())
    page = _Page(data)
    keys = {str(attributes["data-key"]) for _, attributes in page.tags if "data-key" in attributes}
    assert {key.rpartition(".")[2] for key in keys} >= {"0", "n0", "l0", "l1"}
    assert len(page.of("point")) == 2 * 1 + 2 * 1 + 2 * 2 + 2  # two figures of a roof; a network, and two layers
    assert not re.search(rb"""https?://|src=|href=(?!"#)|@import|url\((?!#)""", data), "but what is in the page itself"


@pytest.mark.parametrize("name", ["</script><script>alert(1)</script>", "\"'><img src=x onerror=x>", "\x00\ud800&gt;"])
def test_names_are_no_code(name: str) -> None:
    odd = roofline_page(layered(name=name), device=name)
    known, found = (Counter(tag for tag, _ in _Page(page).tags) for page in (roofline_page(layered()), odd))
    del known["text"], found["text"]  # a long name takes several lines
    assert found == known
    assert b"\x00" not in odd


ROOFLINE = Roofline(Header("roofline", 1, "", "", conditions={"simulated": True}), "twin:board", GRID)


def test_show_draws_a_roofline_as_figure_and_as_page(tmp_path: Path) -> None:
    for name, start in (("a.svg", b"<?xml"), ("a.pdf", b"%PDF"), ("a.html", b"<!DOCTYPE html>")):
        draw(lambda _: ROOFLINE, "roofline.yaml", str(tmp_path / name))
        assert (tmp_path / name).read_bytes().startswith(start)
    assert "SIMULATED: twin:board" in choose_view("roofline")(ROOFLINE).axes[0].get_title(loc="left")
    page = drawing_of(ROOFLINE, "a.html", None, "r.yaml")
    assert isinstance(page, bytes)
    assert b"fp32: what is efficient in time is efficient in energy in" in page
    with pytest.raises(InputError, match="has no figure 'steps'"):
        choose_view("roofline", "steps")
    with pytest.raises(InputError, match="--view chooses between figures"):
        drawing_of(ROOFLINE, "a.html", "roofs", "r.yaml")
