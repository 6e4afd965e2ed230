"""The matrix of boards, writes and faults, one board of each kernel: every write, the faults taking turns."""

import shutil
import tempfile
from pathlib import Path

import pytest
from guardian_matrix import FAULTS, MEMORY, Bench

ONE_OF_EACH_KERNEL = {
    "4.9": "jetson-xavier-nx",
    "5.10": "jetson-orin-nano-8gb",
    "5.15": "jetson-agx-orin-64gb",
    "6.8": "jetson-agx-thor",
}


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
