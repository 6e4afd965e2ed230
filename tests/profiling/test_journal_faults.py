"""A journal with a fault at every operation: what was finished stays, nothing else of the user's is touched."""

import itertools
import os

import pytest
from test_journal import IDENTITY, entry, read, write

from edgetune.artifacts import file_operations
from edgetune.errors import InputError
from edgetune.stages.profiling.journal import open_journal, points_in_journal
from fakes.file_faults import FAULTS, Crash, Faults


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".host.parquet.journal"


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("before", [[], [entry(1), entry(2)]], ids=["new", "old"])
def test_finished_points_stay_after_any_fault(path, monkeypatch, fault, before):
    after = [*before, entry(4), entry(8)]
    for at in itertools.count():
        path.unlink(missing_ok=True)
        if before:
            write(path, before)
        kept = list(before)
        with pytest.MonkeyPatch.context() as patch:
            faults = Faults(patch, at, fault)
            try:
                with open_journal(path, IDENTITY) as journal:
                    for one in after[len(before) :]:
                        journal.append(one)
                        kept.append(one)
            except (InputError, Crash):
                assert faults.hit
        found = read(path)
        assert kept in (found, found[: len(kept)]), f"{fault} at {at}: {faults.done}"
        assert found == after[: len(found)]
        if not faults.hit:
            break
    assert found == after


_FOREIGN = ["link", "dangling link", "several names", "fifo", "folder", "notes", "json lines"] + (
    ["of another user"] if os.geteuid() == 0 else []  # only root can make one
)


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("kind", _FOREIGN)
def test_a_foreign_file_is_never_changed_as_a_journal(path, tmp_path, kind, fresh):
    victim = tmp_path / "shadow"
    victim.write_bytes(b"root:x:0:0\n")
    if kind == "link":
        path.symlink_to(victim)
    elif kind == "dangling link":
        path.symlink_to(tmp_path / "made by root")
    elif kind == "several names":
        write(victim.with_name("other"), [entry(1)])
        victim.write_bytes((tmp_path / "other").read_bytes())
        os.link(victim, path)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "of another user":
        write(path, [entry(1)])
        os.chown(path, 12345, 12345)
    else:
        path.write_bytes(b"my notes\n" if kind == "notes" else b'00000000 {"a": 1}\n')
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir() if each.is_file()}
    with pytest.raises(InputError) as caught:
        open_journal(path, IDENTITY, fresh=fresh)
    assert path.name in caught.value.message
    assert points_in_journal(path, IDENTITY) == set() or kind == "several names"
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir() if each.is_file()} == before
    assert not (tmp_path / "made by root").exists()


@pytest.mark.parametrize("copies", [2, 5])
def test_a_line_that_is_there_twice_is_one_row(path, copies):
    write(path, [entry(1), entry(2), entry(4, status="failed")])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], *(line for line in lines[2:] for _ in range(copies))]))
    with open_journal(path, IDENTITY) as journal:
        assert journal.entries == [entry(1), entry(2), entry(4, status="failed")]
        assert journal.duplicates == 3 * (copies - 1)


def test_a_journal_appended_to_itself_has_each_row_once(path):
    write(path, [entry(1), entry(4, status="failed")])
    path.write_bytes(path.read_bytes() * 2)
    assert read(path) == [entry(1), entry(4, status="failed")]


def test_a_second_try_that_fails_alike_is_no_duplicate(path, monkeypatch):
    failed = entry(4, status="failed")
    write(path, [entry(1), failed])
    monkeypatch.setattr(os, "getpid", lambda: 1)
    write(path, [failed])
    assert read(path) == [entry(1), failed, failed]


def test_the_operations_are_those_of_the_file_layer(path, monkeypatch):
    faults = Faults(monkeypatch)
    write(path, [entry(1)])
    assert {"create", "truncate", "write", "sync"} <= set(faults.done)
    assert faults.done.count("write") == 3
    assert vars(file_operations)["write"] is not os.write
