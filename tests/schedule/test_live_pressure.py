"""The budget shrinks while others need memory, and grows back slowly when they do not."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from edgetune.processes.cgroup import memory_limits
from edgetune.stages.schedule.budget import Adaptation, MemorySensor, PressureObserver, Reading
from edgetune.units import NS

MIB = 1 << 20
BUDGET, RESERVE = 1000 * MIB, 100 * MIB


def calm(available_mib: int) -> Reading:
    return Reading(available_mib * MIB, 0.0)


def test_memory_pressure_of_others_shrinks_the_budget() -> None:
    adaptation = Adaptation(BUDGET, RESERVE)
    assert adaptation.adapt(calm(70), 500 * MIB, 0) == 470 * MIB
    assert adaptation.adapt(calm(150), 470 * MIB, NS) == 470 * MIB  # neither little nor plenty: it stays


def test_the_budget_grows_back_by_half_of_what_is_to_spare_once_it_has_been_calm() -> None:
    adaptation = Adaptation(BUDGET, RESERVE)
    adaptation.adapt(calm(0), 500 * MIB, 0)
    assert adaptation.adapt(calm(600), 400 * MIB, 1 * NS) == 400 * MIB
    assert adaptation.adapt(calm(600), 400 * MIB, 2 * NS) == 400 * MIB
    assert adaptation.adapt(calm(600), 400 * MIB, 3 * NS) == 600 * MIB
    assert adaptation.adapt(calm(2000), 400 * MIB, 4 * NS) == BUDGET


def test_a_dip_begins_the_wait_anew() -> None:
    adaptation = Adaptation(BUDGET, RESERVE)
    adaptation.adapt(calm(0), 500 * MIB, 0)
    adaptation.adapt(calm(600), 400 * MIB, 1 * NS)
    adaptation.adapt(calm(150), 400 * MIB, 2 * NS)
    assert adaptation.adapt(calm(600), 400 * MIB, 3 * NS) == 400 * MIB


def test_waiting_for_memory_shrinks_the_budget_only_where_there_is_little_to_spare() -> None:
    adaptation = Adaptation(BUDGET, RESERVE)
    assert adaptation.adapt(Reading(900 * MIB, 50.0), 500 * MIB, 0) == BUDGET
    assert adaptation.adapt(Reading(150 * MIB, 50.0), 500 * MIB, NS) == 450 * MIB


@given(
    st.lists(st.tuples(st.integers(0, 4000), st.floats(0, 100), st.integers(0, 2000)), max_size=30),
)
def test_the_budget_is_never_above_what_was_asked_for_nor_below_nothing(looks: list[tuple[int, float, int]]) -> None:
    adaptation = Adaptation(BUDGET, RESERVE)
    for n, (available_mib, stalled, held_mib) in enumerate(looks):
        budget_bytes = adaptation.adapt(Reading(available_mib * MIB, stalled), held_mib * MIB, n * NS)
        assert 0 <= budget_bytes <= BUDGET


def machine(tmp_path: Path, available_mib: int) -> Path:
    (tmp_path / "proc/pressure").mkdir(parents=True, exist_ok=True)
    kib = available_mib * 1024
    (tmp_path / "proc/meminfo").write_text(f"MemTotal:  4194304 kB\nMemFree:  1 kB\nMemAvailable:  {kib} kB\n")
    psi = "some avg10=12.50 avg60=1.00 avg300=0.00 total=1\nfull avg10=3.00 avg60=1.00 avg300=0.00 total=1\n"
    (tmp_path / "proc/pressure/memory").write_text(psi)
    return tmp_path


def test_the_kernel_is_read(tmp_path: Path) -> None:
    assert MemorySensor(machine(tmp_path, 700)).read() == Reading(700 * MIB, 12.5)


def test_a_control_group_around_the_process_leaves_less(tmp_path: Path) -> None:
    root = machine(tmp_path, 700)
    (root / "proc/self").mkdir()
    (root / "proc/self/mountinfo").write_text("31 24 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    (root / "proc/self/cgroup").write_text("0::/box/inner\n")
    box = root / "sys/fs/cgroup/box"
    (box / "inner").mkdir(parents=True)
    (box / "inner/memory.max").write_text("max\n")
    (box / "memory.max").write_text(f"{500 * MIB}\n")
    (box / "memory.current").write_text(f"{450 * MIB}\n")
    (box / "memory.stat").write_text(f"anon 1\ninactive_file {20 * MIB}\n")
    assert memory_limits(root) == {box: 500 * MIB}
    assert MemorySensor(root, list(memory_limits(root))).read() == Reading(70 * MIB, 12.5)


def test_without_psi_and_without_meminfo_nothing_is_made_up(tmp_path: Path) -> None:
    root = machine(tmp_path, 700)
    (root / "proc/pressure/memory").unlink()
    assert MemorySensor(root).read() == Reading(700 * MIB, None)
    (root / "proc/meminfo").unlink()
    assert MemorySensor(root).read() is None


def test_the_observer_begins_with_the_most_and_looks_ten_times_a_second(tmp_path: Path) -> None:
    observer = PressureObserver(BUDGET, MemorySensor(machine(tmp_path, 104)))
    assert observer.budget_bytes(lambda: 500 * MIB, 10 * NS) == BUDGET
    assert observer.budget_bytes(lambda: 500 * MIB, 10 * NS + NS // 20) == BUDGET
    shrunk = round((500 + 104 - 0.05 * 4096) * MIB)  # the reserve is a twentieth of 4 GiB: 204.8 MiB
    assert observer.budget_bytes(lambda: 500 * MIB, 10 * NS + NS // 10) == shrunk


def test_a_run_begins_with_the_most_although_its_clock_begins_anew(tmp_path: Path) -> None:
    observer = PressureObserver(BUDGET, MemorySensor(machine(tmp_path, 104)))
    assert observer.budget_bytes(lambda: 500 * MIB, 10 * NS) == BUDGET
    assert observer.budget_bytes(lambda: 500 * MIB, 0) == BUDGET
    assert observer.budget_bytes(lambda: 500 * MIB, NS // 10) < BUDGET
