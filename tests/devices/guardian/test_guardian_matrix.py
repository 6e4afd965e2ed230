"""The matrix of boards, writes and faults, one board of each kernel: every write, the faults in turn; and a flood."""

import shutil
import tempfile
from pathlib import Path

import pytest

from benchmarks.guardian_matrix import (
    EVERY_SIGNAL,
    FAULTS,
    MEMORY,
    ONE_OF_EACH_KERNEL,
    Bench,
    ModeBench,
    flood,
    signalled,
)


@pytest.fixture
def root():
    folder = tempfile.mkdtemp(dir=MEMORY)
    yield Path(folder) / "root"
    shutil.rmtree(folder)


@pytest.mark.parametrize("kernel", ONE_OF_EACH_KERNEL)
def test_whatever_happens_at_any_write_the_board_ends_as_it_was_found(root, kernel):
    bench = Bench(root, ONE_OF_EACH_KERNEL[kernel], kernel)
    turn = list(ONE_OF_EACH_KERNEL).index(kernel)  # so that no board has the same fault at the same write
    ended = [bench.attempt(write, FAULTS[(write + turn) % len(FAULTS)]) for write in range(1, bench.size + 1)]
    assert bench.size > 25
    assert set(ended) >= {"killed", "ended 0"}


@pytest.mark.parametrize("policy", ["ebusy", "missing", "readable"])
def test_clusters_that_were_off_when_it_began_are_put_back_too(root, policy):
    bench = Bench(root, "jetson-agx-orin-64gb", "5.10", mode="MODE_15W", offline_policy=policy)
    for write in range(1, bench.size + 1, 3):
        bench.attempt(write, "kill-after")


def test_a_board_that_refuses_everything_ends_with_6_until_it_no_longer_does(root):
    bench = Bench(root, "jetson-nano", "4.9")
    assert {bench.attempt(write, "stuck") for write in range(5, 20, 3)} == {"ended 6"}


@pytest.mark.parametrize("kernel", ONE_OF_EACH_KERNEL)
def test_every_signal_at_some_write_leaves_the_board_as_found(root, kernel):
    bench = Bench(root, ONE_OF_EACH_KERNEL[kernel], kernel)
    turn = list(ONE_OF_EACH_KERNEL).index(kernel)
    for number in EVERY_SIGNAL[turn :: len(ONE_OF_EACH_KERNEL)]:
        signalled(bench, 1 + 7 * number % bench.size, number)


@pytest.mark.parametrize(
    ("board", "kernel", "options"),
    [
        ("jetson-xavier-nx", "4.9", {}),
        ("jetson-agx-orin-64gb", "5.10", {"mode": "MODE_15W", "offline_policy": "missing", "reonline": "boot"}),
        ("jetson-agx-orin-64gb", "5.15", {"mode": "MODE_30W", "offline_policy": "readable", "int_max_caps": True}),
        ("jetson-agx-thor", "6.8", {}),
    ],
)
def test_whenever_another_power_mode_is_chosen_the_board_ends_as_that_leaves_it(root, board, kernel, options):
    bench = ModeBench(root, board, kernel, golden_context=False, **options)
    kinds: dict[str, list] = {}
    for what, _, _, attempt in bench.steps():
        kinds.setdefault(what.partition(" ")[0], []).append(attempt)
    assert set(kinds) == {"live", "killed", "restoring", "kept"}
    for attempts in kinds.values():
        ended = [attempt() for attempt in attempts[:: len(attempts) // 2]]
        assert ended[0] is not False, "the first of each kind is always reached"
    assert len(bench.expected) == len(bench.others)


@pytest.mark.parametrize(("board", "seed"), [("jetson-nano", 1), ("jetson-agx-orin-64gb", 2)])
def test_a_flood_writes_nothing_but_values_of_the_tables_and_ends_as_found(root, board, seed):
    told = flood(root, board, 1500, seed)
    assert told["carried out"] > 50
    assert told["InputError"] > 500
    assert told["DeviceError"] > 50
    assert told["writes"] > 100
