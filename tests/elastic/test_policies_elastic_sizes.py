"""Pieces are as long as launching them takes, as far as anybody knows how long they take."""

from dataclasses import replace

import pytest

from contracts.elastic_histories import GPUS
from edgetune.stages.elastic.gpu import Call, GpuTask, KernelSequence, Logical, Resources
from edgetune.stages.elastic.pieces import LeftoverTable, PieceShape, about_s, times, wave
from edgetune.stages.elastic.policies.elastic import Elastic
from edgetune.stages.elastic.view import Launch, LaunchPiece, TaskState, View

GPU = replace(GPUS[2], flop_per_s=8e12, bandwidth_bytes_per_s=8e10, launch_s=10e-6)
"""8 multiprocessors of 1 TFLOP/s each, together 80 GB/s."""
CALL = Call("conv", Logical((4096, 1, 1), (256, 1, 1)), flop_per_block=4e5, resources={1: Resources(32)})
"""64 blocks at once, 8 on each multiprocessor: a wave is 64 x 4e5 / 8e12 = 3.2 us."""
POOL = Call("pool", Logical((16, 1, 1), (256, 1, 1)), bytes_per_block=5000, resources={1: Resources(32)})
"""16 x 5000 / 80e9 = 1 us."""

KEPT = "edgetune.stages.elastic.policies.elastic.kept_pieces"
OTHER = GpuTask("m", KernelSequence("m", (POOL,)))


def task(call=CALL):
    return GpuTask("n", KernelSequence("n", (call,)))


def launch(number, call, count):
    return Launch(number, "n", 0, 0, call, 0, count, 1, count)


@pytest.mark.parametrize(
    ("call", "shape", "seconds"),
    [
        (CALL, PieceShape(64, 1, 64), 3.2e-6),
        (CALL, PieceShape(4096, 1, 64), 204.8e-6),
        (CALL, PieceShape(64, 1, 24), 3.2e-6),  # 768 threads on each multiprocessor are enough
        (CALL, PieceShape(64, 1, 8), 8e-6),  # 256 of the 640 that saturate are 0.4 times as fast
        (CALL, PieceShape(64, 4, 8), 32e-6),  # and 64 a tenth
        (CALL, PieceShape(64, 1, 2), 32e-6),  # two multiprocessors of eight, with 256 threads each
        (POOL, PieceShape(16, 1, 16), 1.25e-6),
        (replace(CALL, block_s=5e-6), PieceShape(64, 1, 64), 5e-6),
        (replace(CALL, block_s=5e-6), PieceShape(65, 1, 65), 10e-6),
        (replace(CALL, block_s=5e-6), PieceShape(64, 1, 8), 40e-6),
        (replace(CALL, block_s=5e-6), PieceShape(64, 4, 8), 160e-6),  # 64 threads reach a quarter of what 256 do
        (replace(CALL, block_s=5e-6, whole_s=640e-6), PieceShape(64, 1, 64), 10e-6),  # a 64th of the whole
        (replace(CALL, block_s=5e-6, whole_s=640e-6), PieceShape(64, 1, 8), 40e-6),
    ],
)
def test_the_time_of_a_piece_follows_from_its_blocks_and_their_speed(call, shape, seconds):
    assert about_s(GPU, call, shape) == pytest.approx(seconds)


def test_blocks_without_known_costs_have_no_estimate():
    unknown = replace(CALL, flop_per_block=0.0)
    assert about_s(GPU, unknown, PieceShape(64, 1, 64)) is None
    assert times(GPU, unknown, PieceShape(64, 1, 64)) == 1


@pytest.mark.parametrize(("launch_s", "factor"), [(1e-6, 1), (3.2e-6, 1), (3.3e-6, 2), (10e-6, 4)])
def test_a_piece_is_made_so_much_larger_that_it_lasts_as_long_as_launching_it(launch_s, factor):
    assert times(replace(GPU, launch_s=launch_s), CALL, PieceShape(64, 1, 64)) == factor


def test_a_wave_is_what_fits_at_once():
    assert wave(GPU, CALL) == 64
    assert wave(GPU, replace(CALL, resources={1: Resources(128)})) == 16  # 65536 / (128 x 256) = 2 on each
    assert wave(GPU, replace(CALL, resources={1: Resources(32, 200_000)})) == 0


def test_alone_a_piece_is_as_many_waves_as_it_takes():
    seen = View(0, GPU, [TaskState(task(), [1])], [])
    assert Elastic().decide(seen) == (LaunchPiece("n", 256, 1, 256),)


def test_a_kernel_that_fits_nowhere_is_launched_whole_for_the_backend_to_refuse():
    large = replace(CALL, resources={1: Resources(32, 200_000)})
    assert Elastic().decide(View(0, GPU, [TaskState(task(large), [1])], [])) == (LaunchPiece("n", 4096),)


@pytest.mark.parametrize(
    ("call", "deep"),
    [(CALL, 2), (POOL, 10), (replace(POOL, bytes_per_block=15_000), 4), (replace(POOL, bytes_per_block=0.0), 2)],
)
def test_small_kernels_are_in_flight_until_those_that_wait_take_as_long_as_launching(call, deep):
    """Of 3.75 us each, three wait for 11 us and two for 7.5 us, where launching takes 10 us."""
    flying = []
    while len(flying) < 20:
        (found, *_) = Elastic().decide(View(0, GPU, [TaskState(task(call), [1], in_flight=flying)], [])) or (None,)
        if found is None:
            break
        flying = [*flying, launch(len(flying), call, found.count)]
    assert len(flying) == deep


def test_beside_a_critical_kernel_a_piece_has_more_logical_blocks_and_no_more_physical_ones(monkeypatch):
    kept = LeftoverTable((((1024, PieceShape(8, 1, 8)),),) * 8)
    monkeypatch.setattr(KEPT, lambda *_: kept)
    critical = GpuTask("c", KernelSequence("c", (POOL,)), priority=1)
    runs = Launch(0, "c", 0, 0, POOL, 0, 16)
    seen = View(0, GPU, [TaskState(critical, [], in_flight=[runs]), TaskState(task(), [1])], [runs])
    # 8 blocks of 256 threads: 8 x 4e5 / 8e12 s at 0.4 times the speed are 1 us; launching takes 10 us
    assert Elastic().decide(seen) == (LaunchPiece("n", 80, 1, 8),)


def test_small_pieces_beside_a_critical_kernel_are_in_flight_until_they_take_as_long_as_launching(monkeypatch):
    """Those of one task, as they run one after another: of 1 us each, ten take 10 us. Of another, none."""
    kept = LeftoverTable((((1024, PieceShape(16, 1, 8)),),) * 8)
    monkeypatch.setattr(KEPT, lambda *_: kept)
    critical = GpuTask("c", KernelSequence("c", (CALL,)), priority=1)
    runs = launch(0, CALL, 4096)
    first = TaskState(critical, [], in_flight=[replace(runs, task="c")])
    policy, flying = Elastic(), []
    measured = replace(POOL, block_s=0.5e-6, whole_s=1e-6)
    while len(flying) < 20:
        n, m = TaskState(task(measured), [1], in_flight=flying, served_s=1.0), TaskState(OTHER, [1])
        (found, *_) = policy.decide(View(0, GPU, [first, n, m], [runs])) or (None,)
        if found is None:
            break
        if not flying:
            assert found.task == "m", "which was served less"
            found = replace(found, task="n")
        flying = [*flying, replace(launch(len(flying), measured, 16), task=found.task, blocks=8)]
    assert {each.task for each in flying} == {"n"}
    assert len(flying) == 10
    several = [first, TaskState(task(measured), [1], in_flight=flying[:1]), TaskState(OTHER, [1], in_flight=flying[:1])]
    assert policy.decide(View(0, GPU, several, [runs])) == (), "they may be there together already"
