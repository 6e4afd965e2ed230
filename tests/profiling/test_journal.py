"""The journal: what was finished is there again, whatever ended the run, and two runs never share it."""

import json
import os
import random
import resource
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from edgetune.artifacts.header import Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, PowerSample, Profile, ProfileRow
from edgetune.errors import InputError
from edgetune.stages.profiling.journal import open_journal
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.sweep import sweep
from edgetune.stages.profiling.sweep_journal import SweepJournalEntry, entries_in_journal, identify, stopped_sweep
from edgetune.testing.fake_board import make_board
from edgetune.workflows.device_option import open_named
from edgetune.workloads.resolve import resolve
from edgetune.workloads.workload import Workload
from fakes.journals import entries_in, keep_first

NET = Workload("net.onnx", "net", "onnx", None, "0" * 64)
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
    with open_journal(SweepJournalEntry, path, identity) as journal:
        for one in entries:
            journal.append(one)


def read(path, identity=IDENTITY):
    with open_journal(SweepJournalEntry, path, identity) as journal:
        return list(journal.entries)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / ".host.parquet.journal"


def test_entries_come_back_to_the_last_bit(path):
    entries = [entry(1), entry(4, gpu_mhz=600.25, cpu_cores=4), entry(16, status="failed")]
    write(path, entries)
    assert read(path) == entries


def test_a_file_cut_short_is_an_error_and_nothing_is_thrown_away(path):
    write(path, [entry(size) for size in range(1, 40)])
    cut = path.read_bytes()[:-4096]
    path.write_bytes(cut)
    with pytest.raises(InputError, match="is damaged") as caught:
        read(path)
    assert "--fresh" in caught.value.hint
    assert path.read_bytes() == cut
    assert entries_in_journal(path, IDENTITY) == []


@pytest.mark.parametrize("value", ["{", "[]", '{"point": {}}', "[" * 100_000])
def test_an_entry_that_edgetune_does_not_write_is_damage(path, value):
    write(path, [entry(1)])
    database = sqlite3.connect(path)
    with database:
        database.execute("UPDATE entries SET entry = ?", (value,))
    database.close()
    with pytest.raises(InputError, match="is damaged"):
        read(path)


def test_another_request_is_an_error_that_names_what_differs(path):
    write(path, [entry(1)])
    before = path.read_bytes()
    with pytest.raises(InputError, match="another request: options differs") as caught:
        read(path, {**IDENTITY, "options": {"target_ci": 0.05, "inputs": None}})
    assert "--fresh" in caught.value.hint
    assert path.read_bytes() == before


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize(
    "kind", ["link", "dangling link", "several names", "fifo", "folder", "notes", "lines", "database"]
)
def test_a_foreign_file_is_never_changed_as_a_journal(tmp_path, kind, fresh):
    path, victim = tmp_path / ".host.parquet.journal", tmp_path / "shadow"
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
    elif kind == "database":
        database = sqlite3.connect(path)
        database.execute("CREATE TABLE entries (entry TEXT)")
        database.close()
    else:
        path.write_bytes(b"my notes\n" if kind == "notes" else b'00000000 {"journal": 1}\n')
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir() if each.is_file()}
    with pytest.raises(InputError) as caught:
        open_journal(SweepJournalEntry, path, IDENTITY, fresh=fresh)
    assert path.name in caught.value.message
    assert entries_in_journal(path, IDENTITY) == [] or kind == "several names"
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir() if each.is_file()} == before
    assert not (tmp_path / "made by root").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a file of another user")
def test_a_journal_of_another_user_is_not_taken(path):
    write(path, [entry(1)])
    os.chown(path, 4711, 4711)
    with pytest.raises(InputError, match="belongs to another user"):
        read(path)


def test_points_are_read_while_a_run_goes_on_and_of_the_same_request_only(path):
    with open_journal(SweepJournalEntry, path, IDENTITY) as journal:
        journal.append(entry(1))
        assert entries_in_journal(path, IDENTITY) == [entry(1)]
    assert entries_in_journal(path, {"workload": "other"}) == []
    assert entries_in_journal(path.with_name("none"), IDENTITY) == []


def test_two_runs_at_once_are_refused_naming_the_first(path):
    with (
        open_journal(SweepJournalEntry, path, IDENTITY),
        pytest.raises(InputError, match=rf"process {os.getpid()} \(.*\), since \d\d:"),
    ):
        open_journal(SweepJournalEntry, path, IDENTITY)


def test_lock_of_a_killed_run_is_free(path):
    program = (
        "import os, sys, pathlib\nfrom edgetune.stages.profiling.journal import open_journal\n"
        "from edgetune.stages.profiling.sweep_journal import SweepJournalEntry\n"
        f"journal = open_journal(SweepJournalEntry, pathlib.Path(sys.argv[1]), {IDENTITY!r})\nos.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert done.returncode == -9
    assert read(path) == []


FULL = f"""
import pathlib, resource, signal, sys
from test_journal import IDENTITY, entry
from edgetune.errors import InputError
from edgetune.stages.profiling.journal import open_journal
from edgetune.stages.profiling.sweep_journal import SweepJournalEntry

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
kept = 0
with open_journal(SweepJournalEntry, pathlib.Path(sys.argv[1]), IDENTITY) as journal:
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, {resource.RLIM_INFINITY}))
    try:
        for size in range(1, 1000):
            journal.append(entry(size))
    except InputError as error:
        assert "cannot write the journal" in error.message, error.message
    kept = len(journal.entries)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    journal.append(entry(1000))
print(kept)
"""


def test_a_file_that_may_not_grow_keeps_what_was_there_and_takes_more_later(path):
    """A limit of file sizes stands for a full disk: a write fails at any place within a change."""
    path.parent.mkdir()
    here = os.path.dirname(__file__)
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], check=True, capture_output=True, text=True, cwd=here,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([here, os.path.dirname(here), *sys.path])},
    )  # fmt: skip
    kept = int(done.stdout)
    assert 1 < kept < 999
    assert read(path) == [entry(size) for size in (*range(1, kept + 1), 1000)]


def test_a_change_that_a_crash_cut_short_is_undone(path):
    write(path, [entry(1)])
    program = (
        "import os, sqlite3, sys\ndatabase = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "database.execute('PRAGMA cache_size=1')\ndatabase.execute('PRAGMA cache_spill=1')\n"
        "database.execute('BEGIN')\nfor _ in range(300):\n"
        "    database.execute('INSERT INTO entries (entry) VALUES (?)', ('x' * 4000,))\nos.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == -9
    assert path.with_name(f"{path.name}-journal").exists()
    assert [each["point"]["batch_size"] for each in entries_in(path)] == [1]
    assert read(path) == [entry(1)]


@pytest.mark.parametrize("name", ["jetson", "recorded", "twin:orin-agx", "host"])
def test_a_stopped_sweep_is_labelled_simulated_as_its_table_would_be(path, tmp_path, name):
    """A fake board, a table of a twin, a twin, and this machine."""
    root = None
    if name == "jetson":
        make_board(root := tmp_path / "board", "jetson-nano")
    elif name == "recorded":
        header = Header.new("profile", 2, conditions={"device": "twin:orin-agx", "simulated": True})
        Profile(header, entry(1).rows).save(tmp_path / "table.parquet")
        name = f"recorded:{tmp_path / 'table.parquet'}"
    device = open_named(name, root)
    write(path, [entry(1)], identify(device, NET, "infer", ProfileOptions()))
    assert stopped_sweep(str(path)).header.simulated == device.simulated == (name != "host")


SLEEPS = "import time\ndef make(batch_size):\n    return lambda: time.sleep(0.005)\n"

SWEEP = """
import json, sys
from pathlib import Path
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.devices.host import open_host
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.sweep import sweep
from edgetune.workloads.resolve import resolve

folder = Path(sys.argv[1])
points = [Point("train", "train", size, Mode(cpu_cores=1)) for size in range(1, int(sys.argv[2]) + 1)]
options = ProfileOptions(minibatches=4)
profile = sweep(open_host(), resolve(str(folder / "train.py")), points, options, folder / "journal")
rows = [[row.batch_size, row.status, row.minibatch_s] for row in profile.rows]
print(json.dumps({"rows": rows, "resumed": profile.header.conditions["points_resumed"]}))
"""


def finished(journal: Path) -> list[int]:
    """Batch sizes of the points in the journal, without locking it."""
    return [value["point"]["batch_size"] for value in entries_in(journal)]


def start(tmp_path, points):
    return subprocess.Popen(
        [sys.executable, "-c", SWEEP, str(tmp_path), str(points)], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("kills", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_a_killed_sweep_has_every_point_once(tmp_path, kills):
    """Each run is killed when it has finished a random number of further points, plus a random moment."""
    (tmp_path / "train.py").write_text(SLEEPS)
    points, journal, generator = 5 * kills, tmp_path / "journal", random.Random(kills)
    before: list[int] = []
    for _ in range(kills):
        target = len(before) + generator.randint(0, 2)
        with start(tmp_path, points) as process:
            while len(finished(journal)) < target and process.poll() is None:
                time.sleep(0.002)
            time.sleep(generator.uniform(0, 0.06))
            process.kill()
        after = finished(journal)
        assert after[: len(before)] == before, "a finished point was lost"
        assert len(set(after)) == len(after), "a finished point was measured again"
        before = after
    with start(tmp_path, points) as process:
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0
    result = json.loads(output)
    assert [row[:2] for row in result["rows"]] == [[size, "ok"] for size in range(1, points + 1)]
    assert result["resumed"] == len(before) < points
    assert finished(journal) == [row[0] for row in result["rows"]]


MODES = [Mode(cpu_cores=12, cpu_mhz=2201.6, gpu_mhz=mhz, mem_mhz=3199.0) for mhz in (318.75, 1300.5)]


@pytest.fixture(scope="module")
def run():
    workload = resolve("zoo:squeezenet")
    points = [Point(workload.name, "infer", size, mode) for mode in MODES for size in (1, 4)]

    def sweep_with(rounds, journal):
        device = open_named("twin:orin-agx?noise=on", None, seed=3)
        options = ProfileOptions(interleave_repeats=rounds, seed=3)
        return undated(sweep(device, workload, points, options, journal))

    return sweep_with


def undated(profile):
    """Return the rows and the header without when they came about, and in how many runs."""
    conditions = {**profile.header.conditions, "points_resumed": None}
    header = replace(profile.header, created="", conditions=conditions)
    return [replace(row, started=None) for row in profile.rows], header


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_sweep_killed_after_any_point_and_resumed_equals_an_uninterrupted_one(run, tmp_path, rounds):
    journal = tmp_path / "journal"
    whole = run(rounds, journal)
    content = journal.read_bytes()
    assert len(entries_in(journal)) == 4 * rounds
    for finished in range(4 * rounds):
        journal.write_bytes(content)
        keep_first(journal, finished)
        assert run(rounds, journal) == whole, f"{finished} points"
