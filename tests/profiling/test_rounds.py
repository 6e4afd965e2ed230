"""Rounds: every point once in each, in an order of its own; what changed between them; resumed at any moment."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.artifacts.repeats import one_per_point
from edgetune.stages.profiling import profiler as profilers
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.queue import between_rounds, disagreements, visits
from edgetune.stages.profiling.sweep import sweep
from edgetune.testing.fake_jetson import FakeClock
from edgetune.workloads.workload import Workload
from fakes.device import FakeModes, FakeRunner, FakeSource, fake_device

NET = Workload("net.onnx", "net", "onnx", None, "0" * 64)
POINTS = [Point("net", "infer", size, Mode(gpu_mhz=mhz)) for mhz in (300.0, 600.0, 900.0) for size in (4, 1)]


class Bench:
    """A scripted device that grows slower with every visit, and may be interrupted."""

    def __init__(self, monkeypatch, tmp_path, slower=0.0, temperature=None):
        self.clock, self.opened, self.interrupt_at = FakeClock(), [], None
        self.modes, self.slower, self.journal = FakeModes(), slower, tmp_path / "journal"
        scripted = {} if temperature is None else {"temperature": temperature}
        self.device = fake_device(self.clock, FakeSource(self.open), modes=self.modes, **scripted)
        monkeypatch.setattr(profilers.Profiler, "_table", lambda _, batch_size: batch_size)
        monkeypatch.setattr(profilers.Profiler, "data_warnings", lambda _, batch_size: ())

    def open(self, size):
        if len(self.opened) == self.interrupt_at:
            raise KeyboardInterrupt
        self.opened.append((size, self.modes.applied[-1].gpu_mhz))
        duration_ns = round(size * 10_000_000 * (1 + self.slower * len(self.opened)))
        return FakeRunner(self.clock, lambda _: duration_ns)

    def run(self, points=POINTS, on_progress=lambda _: None, **options):
        options = ProfileOptions(**{"interleave_repeats": 3, **options})
        return sweep(self.device, NET, points, options, self.journal, on_progress=on_progress)


@pytest.fixture
def bench(monkeypatch, tmp_path):
    return Bench(monkeypatch, tmp_path)


@given(st.integers(2, 5), st.integers(0, 2**32))
def test_every_round_has_every_point_once_and_loads_each_batch_size_once(rounds, seed):
    order = visits(POINTS, rounds, seed)
    assert [visit.round for visit in order] == [n for n in range(1, rounds + 1) for _ in POINTS]
    for number in range(1, rounds + 1):
        own = [visit.point for visit in order if visit.round == number]
        assert sorted(map(str, own)) == sorted(map(str, POINTS))
        sizes = [point.batch_size for point in own]
        assert sum(a != b for a, b in pairwise(sizes)) == 1
    assert visits(POINTS, rounds, seed) == order


def test_rounds_and_seeds_have_orders_of_their_own():
    points = [Point("net", "infer", 1, Mode(gpu_mhz=float(mhz))) for mhz in range(300, 1300, 50)]
    orders = [tuple(visit.point for visit in visits(points, 3, seed)) for seed in (0, 1)]
    rounds = {order[start : start + len(points)] for order in orders for start in range(0, 60, 20)}
    assert len(rounds) == 6


@pytest.mark.parametrize("moment", range(1, 18, 4))
def test_rounds_interrupted_anywhere_go_on_in_the_same_order(bench, moment):
    whole = [(visit.point.batch_size, visit.point.mode.gpu_mhz) for visit in visits(POINTS, 3, 0)]
    bench.interrupt_at = moment
    with pytest.raises(KeyboardInterrupt):
        bench.run()
    bench.interrupt_at = None
    told = []
    rows = bench.run(on_progress=told.append).rows
    assert bench.opened == whole
    assert len(rows) == len(whole)
    assert (told[0].done, told[0].total, told[-1].done) == (moment, 18, 18)


def test_difference_between_rounds_is_in_the_header_and_readers_get_the_median(monkeypatch, tmp_path):
    profile = Bench(monkeypatch, tmp_path, slower=0.01).run(POINTS[:1])
    assert [row.minibatch_s for row in profile.rows] == pytest.approx([0.0404, 0.0408, 0.0412])
    change = 0.0008 / 0.0408
    found = profile.header.conditions["rounds"]
    assert found["count"] == 3
    assert found["change_minibatch_s"] == pytest.approx({"median": change, "max": change})
    assert found["change_power_w"] is None
    (row,) = one_per_point(profile.rows).rows
    assert row.minibatch_s == pytest.approx(0.0408)


def row(number, low_s, high_s, power_w=None):
    return ProfileRow(
        "net", "infer", 1, (low_s + high_s) / 2, gpu_mhz=300.0, power_w=power_w, round=number,
        minibatch_ci95_low_s=low_s, minibatch_ci95_high_s=high_s,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([row(1, 0.95, 1.05), row(2, 1.0, 1.1)], False),  # the intervals explain it
        ([row(1, 0.999, 1.001), row(2, 1.009, 1.011)], False),  # 1 %, and 2 % was asked for
        ([row(1, 0.999, 1.001), row(2, 1.099, 1.101)], True),
        ([row(1, 0.999, 1.001, 20.0), row(2, 0.999, 1.001, 20.5)], False),  # boards repeat to 2 to 3 %
        ([row(1, 0.999, 1.001, 20.0), row(2, 0.999, 1.001, 21.0)], True),
    ],
)
def test_rounds_disagree_beyond_their_intervals(rows, told):
    cautions = disagreements(between_rounds(rows), ProfileOptions())
    assert [caution.code for caution in cautions] == ["rounds-disagree"] * told
