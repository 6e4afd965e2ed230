"""``--batch-sizes max``: the largest batch size that fits, found without trying what would not fit by far."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.stages.profiling.largest_batch import LONGEST_S, MOST, largest_batch, used_bytes

MIB = 1 << 20


class Machine:
    """A network that needs ``base + each * size`` bytes; it notes what was tried."""

    def __init__(self, base, each, crashes_at=MOST + 1, minibatch_s=0.001):
        self.base, self.each, self.crashes_at, self.minibatch_s = base, each, crashes_at, minibatch_s
        self.tried = []

    def needs(self, size):
        return self.base + self.each * size

    def __call__(self, size):
        self.tried.append(size)
        failed = size >= self.crashes_at
        row = ProfileRow.at(
            Point("net", "infer", size, Mode()), None if failed else self.minibatch_s * size,
            status="failed" if failed else "ok", reason="out of memory" if failed else None,
        )  # fmt: skip
        return row, None if failed else self.needs(size)


def found(machine, limit):
    said = []
    largest = largest_batch(machine, limit, said.append)
    assert len(said) == len(machine.tried)
    return largest


@given(st.integers(0, 2000), st.integers(1, 300), st.integers(1, 5000))
def test_what_is_found_fits_and_little_more_would(base, each, spare):
    machine = Machine(base * MIB, each * MIB)
    limit = machine.needs(1) + spare * MIB
    largest = found(machine, limit)
    assert largest.used_bytes == machine.needs(largest.batch_size) <= limit
    assert machine.needs(largest.batch_size + largest.batch_size // 32 + 1) > limit
    assert all(machine.needs(size) <= limit for size in machine.tried if size > 2)  # a line foresees it
    assert len(machine.tried) <= 14


def test_memory_that_jumps_is_closed_in_on():
    machine = Machine(100 * MIB, MIB)
    machine.needs = lambda size: (100 if size < 77 else 900) * MIB + size
    largest = found(machine, 500 * MIB)
    assert 74 <= largest.batch_size < 77
    assert "needs 900" in largest.why


def test_size_that_fails_bounds_those_that_fit():
    largest = found(Machine(100 * MIB, MIB, crashes_at=50), 4096 * MIB)
    assert 48 <= largest.batch_size < 50
    assert "out of memory" in largest.why


def test_slow_minibatches_end_the_search():
    largest = found(Machine(100 * MIB, 1, minibatch_s=LONGEST_S / 100), 4096 * MIB)
    assert largest.batch_size == 128
    assert "takes 12.8 s already" in largest.why


def test_memory_of_a_gpu_that_shares_the_machines_counts():
    row = SimpleNamespace(status="ok", memory_peak_bytes=300 * MIB, memory_available_min_bytes=1000 * MIB)
    assert used_bytes(row, None) == 300 * MIB
    assert used_bytes(row, 2000 * MIB) == 1000 * MIB
    assert used_bytes(row, 1100 * MIB) == 300 * MIB
    row.status = "swapped"
    assert used_bytes(row, None) is None
