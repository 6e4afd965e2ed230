"""The offered points as data, and what measured points rule out."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.errors import InputError
from edgetune.stages.search.space import Axis, Space
from edgetune.stages.search.strategies.gmd_state import Bounds

POINTS = [
    Point("net", "train", 16, Mode(gpu_mhz=gpu, mem_mhz=mem)) for gpu, mem in product((9.0, 1.0, 5.0), (2.0, 4.0))
]


def test_axes_are_the_knobs_that_vary_ascending():
    space = Space.of(POINTS)
    assert space.axes == (Axis("gpu_mhz", (1.0, 5.0, 9.0)), Axis("mem_mhz", (2.0, 4.0)))
    assert space.at((2, 0)) == Point("net", "train", 16, Mode(gpu_mhz=9.0, mem_mhz=2.0))
    assert all(space.at(space.levels[point]) == point for point in POINTS)


def test_the_order_offered_and_duplicates_change_nothing():
    assert Space.of(POINTS) == Space.of(POINTS[::-1] + POINTS[:2])


def test_several_batch_sizes_are_an_axis_and_one_value_is_none():
    points = [replace(POINTS[0], batch_size=size) for size in (16, 1, 4)]
    assert Space.of(points).axes == (Axis("batch_size", (1, 4, 16)),)
    assert Space.of(points[:1]).axes == ()
    assert Space.of([Point("net", "train", 1, Mode())]).at(()) is not None


def test_no_points_and_knobs_set_in_some_points_only_are_refused():
    with pytest.raises(InputError, match="no points were offered"):
        Space.of([])
    with pytest.raises(InputError, match="some points set mem_mhz"):
        Space.of([*POINTS, Point("net", "train", 16, Mode(gpu_mhz=1.0))])


def test_a_line_holds_the_offered_places_of_one_knob():
    space = Space.of(point for point in POINTS if point != Point("net", "train", 16, Mode(gpu_mhz=5.0, mem_mhz=2.0)))
    assert space.line((0, 0), 0, above=True) == [(2, 0)]  # the hole is not offered
    assert space.line((2, 1), 0, above=False) == [(0, 1), (1, 1)]
    assert space.line((2, 1), 1, above=True) == []


def three_knobs() -> Space:
    knobs = product((1.0, 2.0, 3.0), (1.0, 2.0, 3.0), (1.0, 2.0, 3.0))
    return Space.of(Point("net", "train", 1, Mode(cpu_mhz=c, gpu_mhz=g, mem_mhz=m)) for c, g, m in knobs)


def test_a_point_over_budget_rules_out_those_above_it_at_the_same_memory_clock():
    bounds = Bounds(three_knobs(), limit_w=20.0)
    bounds.note((1, 1, 1), 21.0)
    assert bounds.rules_out((1, 1, 1))
    assert bounds.rules_out((2, 1, 1))
    assert bounds.rules_out((2, 2, 1))
    assert not bounds.rules_out((2, 2, 2))  # a faster memory may draw less
    assert not bounds.rules_out((0, 2, 1))


def test_a_point_within_budget_makes_those_below_it_pointless():
    bounds = Bounds(three_knobs(), limit_w=20.0)
    bounds.note((1, 1, 1), 20.0)
    ruled_out = {levels for levels in three_knobs().levels.values() if bounds.rules_out(levels)}
    assert ruled_out == set(product((0, 1), (0, 1), (0, 1)))


def test_without_power_only_a_search_without_a_budget_learns():
    blind, free = Bounds(three_knobs(), limit_w=20.0), Bounds(three_knobs(), limit_w=float("inf"))
    for bounds in (blind, free):
        bounds.note((2, 2, 2), None)
    assert not blind.rules_out((0, 0, 0))
    assert free.rules_out((0, 0, 0))
