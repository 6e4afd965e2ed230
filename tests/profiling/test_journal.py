"""The journal: what was finished is there again, whatever cut the last line short, and two runs never share it."""

import errno
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, PowerSample, ProfileRow
from edgetune.errors import InputError
from edgetune.stages.profiling.journal import discard_journal, open_journal
from edgetune.stages.profiling.journal_lines import SweepJournalEntry, plain_entry, to_entry, to_line


def test_lines_from_before_there_were_rounds_are_read():
    plain = plain_entry(entry(4))
    del plain["round"], plain["cooled"]
    assert (to_entry(plain).round, to_entry(plain).cooled) == (None, True)


IDENTITY = {"workload": "net", "options": {"target_ci": 0.02, "inputs": None}}


def entry(batch_size: int, *, status="ok", **knobs) -> SweepJournalEntry:
    point = Point("net", "infer", batch_size, Mode.of(knobs or {"gpu_mhz": 300.5}))
    row = ProfileRow(
        "net",
        "infer",
        batch_size,
        None if status == "failed" else 0.1 + batch_size / 3,
        gpu_mhz=point.mode.gpu_mhz,
        status=status,
        times_s=(0.5, 0.1 + batch_size / 3),
        power_trace=(PowerSample(0.1, 20.0 / 3),),
    )
    return SweepJournalEntry(point, (row,), overhead=0.001, target_reached=False, round=2, cooled=False)


def write(path, entries, identity=IDENTITY):
    with open_journal(path, identity) as journal:
        for one in entries:
            journal.append(one)


def read(path, identity=IDENTITY):
    with open_journal(path, identity) as journal:
        return list(journal.entries)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / ".host.parquet.journal"


def test_entries_come_back_to_the_last_bit(path):
    entries = [entry(1), entry(4, gpu_mhz=600.25, cpu_cores=4), entry(16, status="failed")]
    write(path, entries)
    assert read(path) == entries


def test_runs_after_runs_append(path):
    write(path, [entry(1)])
    write(path, [entry(4)])
    assert read(path) == [entry(1), entry(4)]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400))
def test_file_cut_anywhere_loses_at_most_the_line_it_cuts(tmp_path_factory, lost):
    path = tmp_path_factory.mktemp("journal") / "j"
    entries = [entry(size) for size in range(1, 6)]
    write(path, entries)
    whole = path.read_bytes()
    kept = whole[: max(0, len(whole) - lost)]
    path.write_bytes(kept)
    found = read(path)
    assert found == entries[: len(found)]
    assert len(found) >= kept.count(b"\n") - 2  # the first line and the line of the run
    write(path, [entry(9)])
    assert read(path) == [*found, entry(9)]


@pytest.mark.parametrize("keep", range(0, 60, 7))
def test_first_line_cut_short_begins_anew(path, keep):
    write(path, [])
    path.write_bytes(path.read_bytes()[:keep])
    assert read(path) == []


def test_zeros_at_the_end_are_a_cut(path):
    write(path, [entry(1)])
    with path.open("ab") as file:
        file.write(b"\0" * 100)
    assert read(path) == [entry(1)]


def test_damage_before_the_end_is_an_error_and_nothing_is_thrown_away(path):
    write(path, [entry(1), entry(2), entry(3)])
    damaged = path.read_bytes().replace(b'"batch_size":2', b'"batch_size":7', 1)
    path.write_bytes(damaged)
    with pytest.raises(InputError, match="damaged at line 4") as caught:
        read(path)
    assert "--fresh" in caught.value.hint
    assert path.read_bytes() == damaged


def test_fresh_begins_anew(path):
    write(path, [entry(1)])
    with open_journal(path, {"workload": "other"}, fresh=True) as journal:
        assert journal.entries == []
    assert read(path, {"workload": "other"}) == []


def test_another_request_is_an_error_that_names_what_differs(path):
    write(path, [entry(1)])
    before = path.read_bytes()
    with pytest.raises(InputError, match="another request: options differs") as caught:
        read(path, {**IDENTITY, "options": {"target_ci": 0.05, "inputs": None}})
    assert "--fresh" in caught.value.hint
    assert path.read_bytes() == before


def test_another_request_replaces_a_journal_without_measurements(path):
    write(path, [entry(1, status="failed")])
    assert read(path, {"workload": "mended"}) == []


def test_file_that_is_no_journal_is_left_alone(path):
    path.parent.mkdir()
    path.write_text("my notes\nof last week\n")
    with pytest.raises(InputError, match="not a journal"):
        read(path)
    assert path.read_text() == "my notes\nof last week\n"


def test_a_process_that_the_journal_names_is_not_told_for_its_holder(path):
    with open_journal(path, IDENTITY):
        path.write_bytes(path.read_bytes() + to_line({"run": {"pid": 1, "started": "\x1b[2J"}}) + to_line({"run": {}}))
        with pytest.raises(InputError, match=rf": process {os.getpid()} "):
            open_journal(path, IDENTITY)


def test_two_runs_at_once_are_refused_naming_the_first(path):
    with open_journal(path, IDENTITY), pytest.raises(InputError, match=rf"process {os.getpid()} \(.*\), since \d\d:"):
        open_journal(path, IDENTITY)


def test_lock_of_a_killed_run_is_free(path):
    program = (
        "import os, sys, pathlib\nfrom edgetune.stages.profiling.journal import open_journal\n"
        f"journal = open_journal(pathlib.Path(sys.argv[1]), {IDENTITY!r})\nos.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert done.returncode == -9
    assert read(path) == []


def test_full_disk_keeps_what_was_there(path, monkeypatch):
    journal = open_journal(path, IDENTITY)
    journal.append(entry(1))
    real = os.write

    def full(descriptor, data):
        real(descriptor, data[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(InputError, match="No space left"):
        journal.append(entry(2))
    assert journal.entries == [entry(1)]
    monkeypatch.undo()
    journal.append(entry(3))
    journal.close()
    assert read(path) == [entry(1), entry(3)]


def test_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot keep a journal"):
        open_journal(tmp_path / "file" / "journal", IDENTITY)


@pytest.mark.parametrize(("every_s", "syncs"), [(0.0, 3), (3600.0, 1)])
def test_entries_reach_the_disk_at_once_or_now_and_then(path, monkeypatch, every_s, syncs):
    journal = open_journal(path, IDENTITY, sync_every_s=every_s)
    calls = []
    monkeypatch.setattr(os, "fsync", calls.append)
    for size in (1, 2, 3):
        journal.append(entry(size))
    journal.close()
    assert len(calls) == (syncs + 1 if every_s == 0 else 1)


def test_discarding_is_harmless_when_there_is_none(path):
    discard_journal(path)
    write(path, [])
    discard_journal(path)
    assert not path.exists()


def test_closing_twice_is_harmless(path):
    journal = open_journal(path, IDENTITY)
    journal.close()
    journal.close()
