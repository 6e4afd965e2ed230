"""The twin against every published figure, on the project's own operator tables."""

import csv
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from benchmarks.twin import MODES_96, ROOFS, AnchorEvaluator, check, fit, leave_one_out, load_anchors, tables
from edgetune.artifacts.mode import Mode
from edgetune.devices.mode_grids import studied_grid
from edgetune.devices.twin.constants import load_board
from edgetune.devices.twin.physics import Clocks, predict
from edgetune.devices.twin.work import work_of

TWIN = load_board("orin-agx")[0]
ANCHORS, ANCHORS_SHA256 = load_anchors()
DATA = Path(__file__).parents[4] / "shared/data/pagoda/orin_maxn_by_batch.csv"
NAMES = {"mobnet": "mobilenet_v3_large", "bert-large": "bert_large"}
CASES = [
    (network, task, batch_size)
    for network, batch_size in [("mobilenet_v3_large", 1), ("resnet50", 16), ("yolov8n", 4), ("lstm", 32),
                                ("bert_large", 1), ("alexnet", 1), ("squeezenet", 64), ("resnet18", 16)]
    for task in ("infer", "train")
]  # fmt: skip


@lru_cache(maxsize=1)
def rows():
    return check(TWIN, tables)


def row(name):
    (found,) = [row for row in rows() if row.name == name]
    return found


def test_every_figure_is_within_its_tolerance():
    assert [f"{row.name}: {row.deviation_pct:+.1f}" for row in rows() if row.within is False] == []


def test_low_clocks_are_not_flattered():
    """ResNet-50 with the GPU at 0.7 GHz (+7 % time, -10 % energy) and memory at 2.1 GHz (+2.4 % efficiency): within 1.5
    points. No figure of a slowdown is further off than what `--tune` keeps away from its limit."""
    hard = [row for row in rows() if row.tolerance_pct == 1.5 and row.unit == "ratio"]
    assert len(hard) == 3
    assert max(abs(row.deviation_pct) for row in hard) <= 1.5
    slowdowns = [row for row in rows() if row.unit == "ratio" and row.name.endswith("time")]
    assert len(slowdowns) == 8
    assert max(abs(row.deviation_pct) for row in slowdowns) <= TWIN.fit.claim_slowdown_points <= 3


def test_every_figure_names_its_source_and_is_checked_once():
    names = [(figure.name, figure.quantity, figure.use) for figure in ANCHORS.figures]
    assert len(set(names)) == len(names) == len(rows())
    assert all(figure.source for figure in ANCHORS.figures)
    assert all(figure.note for figure in ANCHORS.figures if figure.group == "none")
    assert max(share for group, share in ANCHORS.tolerances.items() if share and group != "power_wide") == 18


def test_the_roofs_are_where_a_fit_to_roof_figures_alone_puts_them():
    roofs = [figure for figure in ANCHORS.figures if figure.group == "roof" and figure.use == "fitted"]
    bench = AnchorEvaluator(roofs, tables)
    again = bench.values(fit(bench, TWIN.values, ROOFS, [True] * len(roofs)))
    assert again == pytest.approx(bench.values(TWIN.values), rel=0.003)


@pytest.mark.skipif(not DATA.exists(), reason="the published table by batch size is not on this machine")
def test_figures_by_batch_size_are_those_of_the_published_table():
    published = {
        (figure.network, figure.batch_size, figure.quantity): figure.published
        for figure in ANCHORS.figures
        if figure.source.endswith("by batch size")
    }
    with DATA.open() as file:
        for line in csv.DictReader(file):
            key = (NAMES.get(line["workload"], line["workload"]), int(line["batch_size"]))
            assert published.pop((*key, "minibatch_ms")) == pytest.approx(1e3 * float(line["minibatch_s"]), rel=6e-4)
            assert published.pop((*key, "power_w")) == pytest.approx(float(line["power_w"]), abs=0.05)
    assert published == {}


def test_the_claim_is_what_leaving_out_convolutional_networks_shows():
    left_out = {row.network: row for row in TWIN.fit.leave_one_out}
    assert set(left_out) == {"lstm", "yolov8n", "mobilenet", "resnet50", "bert", "resnet18"}
    cnns = [left_out[name] for name in ("resnet18", "resnet50", "yolov8n")]
    assert TWIN.fit.claim_time_pct == round(max(row.time_pct for row in cnns)) <= 20
    assert TWIN.fit.claim_power_pct == round(max(row.power_pct for row in cnns)) <= 10
    # A class of operators seen in one network only cannot be predicted without it; the table must show that.
    assert left_out["lstm"].time_pct > TWIN.fit.claim_time_pct
    assert "rnn_issue_share" in left_out["lstm"].note


@pytest.mark.slow
def test_the_leave_one_out_table_is_reproduced():
    again = {row.network: row for row in leave_one_out(TWIN, tables)}
    for row in TWIN.fit.leave_one_out:
        assert again[row.network].time_pct == pytest.approx(row.time_pct, abs=2)
        assert again[row.network].power_pct == pytest.approx(row.power_pct, abs=2)


@pytest.mark.parametrize(("network", "task", "batch_size"), CASES)
def test_real_networks_never_slow_down_when_a_clock_or_a_core_is_added(network, task, batch_size):
    grid = studied_grid(TWIN.space, 441)
    shape = tuple(len(values) for values in grid.values())
    axes = np.meshgrid(*grid.values(), indexing="ij")
    modes = [Mode(int(cores), *clocks) for cores, *clocks in np.stack([axis.ravel() for axis in axes], axis=1).tolist()]
    result = predict(TWIN.values, work_of(tables(network, task, batch_size)), Clocks.of(modes))
    time_s, power_w = result.minibatch_s.reshape(shape), result.power_w.reshape(shape)
    for axis in range(4):
        assert np.diff(time_s, axis=axis).max() <= 1e-12
    # Power rises with cores, CPU and GPU clock. With the memory clock it may fall: a launch-bound GPU rests sooner.
    for axis in range(3):
        assert np.diff(power_w, axis=axis).min() > 0
    cheaper_w = power_w[-1, -1, -1, -1] - power_w[0, -1, -1, -1]  # 12 cores, of which 8 rest
    assert cheaper_w > 0.5
    assert np.diff(power_w, axis=3).min() > -4
    assert 11 < power_w.min() < power_w.max() < 75


@pytest.mark.parametrize("network", ["mobilenet_v3_large", "resnet50", "bert_large"])
def test_larger_batches_take_longer_in_all_and_less_per_sample(network):
    at = Clocks.of([MODES_96[-1], MODES_96[0]])
    times_s = [predict(TWIN.values, work_of(tables(network, "infer", b)), at).minibatch_s / b for b in (1, 4, 16)]
    for larger, smaller in zip(times_s[1:], times_s, strict=False):
        assert np.all(larger <= smaller * (1 + 1e-9))
        assert np.all(4 * larger >= smaller)
