"""Figures of profiles: what is on the axes, which points are on the front, what is left out and said to be."""

import pytest

from edgetune.artifacts.header import Header
from edgetune.artifacts.profile import KIND, VERSION, Profile, ProfileRow
from edgetune.stages.profiling.figures import profile_figure


def profile(*rows, simulated=False):
    return Profile(Header.new(KIND, VERSION, conditions={"simulated": simulated}), rows)


def row(gpu_mhz, time_s, power_w=None, *, size=16, **more):
    return ProfileRow("net", "train", size, time_s, gpu_mhz=gpu_mhz, power_w=power_w, device="board", **more)


def labels(axes):
    return axes.get_legend_handles_labels()[1]


def line(axes, label):
    return next(found for found in axes.lines if found.get_label() == label)


def test_several_batch_sizes_are_share_the_time_per_sample():
    (axes,) = profile_figure(
        profile(row(300, 0.2, 12.0), row(300, 0.02, 10.0, size=1), row(300, 0.3, 12.0, size=32))
    ).axes
    assert axes.get_xlabel() == "time per sample (ms, log)"
    assert labels(axes)[:4] == ["batch size 1", "batch size 16", "batch size 32", "Pareto front"]
    front = line(axes, "Pareto front")
    assert list(front.get_xdata()) == pytest.approx([300 / 32, 20.0])  # 12.5 ms at 12 W are beaten by 9.4 ms at 12 W


def test_without_power_time_is_drawn_over_the_knob_that_varies():
    rows = [
        row(mhz, 60 / mhz, minibatch_ci95_low_s=50 / mhz, minibatch_ci95_high_s=90 / mhz) for mhz in (900, 300, 600)
    ]
    (axes,) = profile_figure(profile(*rows)).axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("GPU clock (MHz)", "minibatch time (ms)")
    drawn = axes.lines[0]
    assert list(drawn.get_xdata()) == [300, 600, 900]
    assert list(drawn.get_ydata()) == pytest.approx([200, 100, 200 / 3])
    assert drawn.get_linestyle() == "-"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["300", "600", "900"]
    first = axes.collections[0].get_segments()[0]
    assert [height for _, height in first] == pytest.approx([50 / 300 * 1e3, 90 / 300 * 1e3])
