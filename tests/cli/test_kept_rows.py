"""Rows of a long run lie on the disk as they come: a full disk at its end, or a kill, costs none of them."""

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from edgetune.artifacts import file_operations, io
from edgetune.artifacts.header import Header
from edgetune.artifacts.rows_file import RowsFile, completed, left_rows
from edgetune.artifacts.run import Run, RunRow
from edgetune.errors import InputError

TWIN = ("--device", "twin:orin-agx")
INTERLEAVE = ("interleave", "plan.yaml", *TWIN, "--duration", "2s")
SCHEDULE = ("schedule", "run", "jobs.yaml", "--simulate")


@pytest.fixture(autouse=True)
def folder(inputs_folder):
    return inputs_folder


def hidden(folder):
    return sorted(path for path in folder.iterdir() if path.name.endswith(".rows.json"))


@pytest.mark.parametrize("words", [INTERLEAVE, SCHEDULE], ids=["interleave", "schedule run"])
def test_a_full_disk_at_the_end_keeps_the_rows_and_the_hint_makes_the_file_of_them(
    edgetune, folder, words, monkeypatch
):
    assert edgetune(*words, "-o", "whole.parquet").code == 0
    assert hidden(folder) == []
    whole = io.from_bytes(Path("whole.parquet").read_bytes(), kind=kind_of(words), name="whole")

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(file_operations, "rename", full)
    ended = edgetune(*words, "-o", "run.parquet")
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert ended.code == 2
    assert "No space left" in ended.err
    (rows,) = hidden(folder)
    hint = ended.lines[-1]
    assert f"{len(whole.rows)} of {len(whole.rows)} rows are in {rows.name}" in hint
    command = hint.partition("then: edgetune ")[2].split()
    assert edgetune(*command).code == 0
    again = io.from_bytes(Path("run.parquet").read_bytes(), kind=kind_of(words), name="run")
    assert again.rows == whole.rows
    assert [each.code for each in again.header.warnings] == ["unfinished"]
    assert edgetune("show", "run.parquet").code == 0


def kind_of(words):
    return "run" if words is INTERLEAVE else "timeline"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_disk_that_fills_up_at_the_end(edgetune, folder):
    disk = folder / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        rows = RowsFile(disk / "run.parquet", Header.new("run", 1), RunRow)
        for number in range(1000):
            rows.keep(RunRow("managed", "power", float(number), power_w=1.0))
        rows.flush()
        size = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
        (disk / "ballast").write_bytes(bytes(max(size - 4096, 0)))
        for number in range(1000):
            rows.keep(RunRow("managed", "power", 1000.0 + number, power_w=1.0))
        rows.finish()
        assert rows.kept == 1000
        found = io.read(Run, str(rows.path))
        assert [row.finished_s for row in found.rows] == [float(number) for number in range(len(found.rows))]
        assert len(found.rows) >= 1000
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_killed_run_leaves_the_rows_that_came_and_the_next_one_names_them(edgetune, folder):
    """The run is real: a file that trains in steps of some milliseconds."""
    (folder / "train.py").write_text("import time\ndef make(batch_size):\n    return lambda: time.sleep(0.005)\n")
    words = ("interleave", "--train", "train.py", "--device", "host", "--duration", "60s", "-o", "run.parquet")
    with subprocess.Popen(
        [sys.executable, "-m", "edgetune", *words], cwd=folder, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    ) as process:
        until_s = time.monotonic() + 60
        while time.monotonic() < until_s and process.poll() is None:
            if hidden(folder) and hidden(folder)[0].read_text(encoding="utf-8").count('"event": "train"') > 20:
                break
            time.sleep(0.05)
        assert left_rows(folder / "run.parquet") == [], "it is in use"
        process.send_signal(signal.SIGKILL)
    (rows,) = hidden(folder)
    assert not (folder / "run.parquet").exists()
    assert left_rows(folder / "run.parquet") == [folder / rows.name]
    assert edgetune("show", rows.name, "-o", "kept.parquet").code == 0
    kept = io.read(Run, "kept.parquet")
    assert len(kept.rows) > 20
    assert kept.header.inputs["tenants"][0]["name"] == "train"
    told = edgetune(*INTERLEAVE, "-o", "run.parquet")
    assert told.code == 0
    assert f"edgetune show {rows.name} -o FILE keeps them" in told.err
    assert hidden(folder) == [rows]


def test_a_file_of_rows_cut_at_any_byte_is_read_to_its_last_whole_row(folder):
    rows = RowsFile(folder / "run.parquet", Header.new("run", 1, conditions={"simulated": True}), RunRow)
    for number in range(4):
        rows.keep(RunRow("managed", "power", float(number), power_w=1.0, reason='"}\n{'))
        rows.flush()
    rows.finish()
    text = rows.path.read_text(encoding="utf-8")
    begin = text.index('"rows": [') + len('"rows": [')
    counts = []
    for size in range(begin, len(text) + 1):
        document = json.loads(completed(text[:size]))
        counts.append(len(document["rows"]))
        assert document["rows"] == json.loads(completed(text))["rows"][: counts[-1]]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, 4)
    assert len(io.read(Run, str(rows.path)).rows) == 4


def test_a_file_that_does_not_say_so_is_not_completed(folder):
    text = '{\n"kind": "run",\n"rows": [\n{"a": 1},\n{"b"'
    assert completed(text) == text
    Path("cut.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError):
        io.read(Run, "cut.json")


def test_the_rows_of_two_runs_lie_apart_and_links_are_not_followed(folder):
    victim = folder / "victim"
    (folder / ".run.parquet.rows.json").symlink_to(victim)
    first, second = (RowsFile(folder / "run.parquet", Header.new("run", 1), RunRow) for _ in range(2))
    assert (first.path.name, second.path.name) == (".run.parquet-2.rows.json", ".run.parquet-3.rows.json")
    assert not victim.exists()
    for each in (first, second):
        each.discard()
    assert [path.name for path in hidden(folder)] == [".run.parquet.rows.json"]


def test_a_disk_that_fails_during_the_run_ends_the_keeping_and_not_the_run(edgetune, folder, monkeypatch):
    def broken(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def kept(*_):
        raise AssertionError

    rows = RowsFile(folder / "run.parquet", Header.new("run", 1), RunRow)
    monkeypatch.setattr(file_operations, "write", broken)
    rows.keep(RunRow("managed", "power", 0.0, power_w=1.0))
    rows.flush()
    monkeypatch.setattr(file_operations, "write", kept)
    rows.keep(RunRow("managed", "power", 1.0, power_w=1.0))
    rows.finish()
    assert rows.kept == 0


def test_a_disk_that_is_full_before_the_run_is_reported_before_it(edgetune, folder, monkeypatch):
    real = file_operations.write

    def full(descriptor, data):
        if bytes(data[:1]) == b"{":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data)

    monkeypatch.setattr(file_operations, "write", full)
    ended = edgetune(*INTERLEAVE, "-o", "run.parquet")
    assert ended.code == 2
    assert "rows cannot be kept beside run.parquet: No space left" in ended.lines[-2]
    assert hidden(folder) == []


def test_a_disk_that_is_full_in_the_middle_has_the_run_elsewhere(edgetune, folder, monkeypatch):
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    real = file_operations.write

    def full(descriptor, data):
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if not path.is_relative_to(elsewhere) and bytes(data[:1]) != b"{":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data)

    monkeypatch.setattr(file_operations, "write", full)
    ended = edgetune(*INTERLEAVE, "-o", "run.parquet")
    assert ended.code == 2
    assert f"it is in {elsewhere / 'run.parquet'} instead" in ended.lines[-1]
    assert io.read(Run, str(elsewhere / "run.parquet")).rows
    assert hidden(folder) == []
    assert not (folder / "run.parquet").exists()


def test_nothing_is_kept_beside_standard_output(edgetune, folder):
    assert edgetune(*INTERLEAVE, "-o", "-").code == 0
    assert hidden(folder) == []


def test_a_refused_run_leaves_nothing(edgetune, folder):
    assert edgetune("schedule", "run", "jobs.yaml", "--simulate", "--memory", "1KiB").code == 3
    assert hidden(folder) == []
