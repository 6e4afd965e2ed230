"""The journal: there whole or not at all, and carried out only when it is what was written."""

import contextlib
import os
import stat
from pathlib import Path

import pytest

from edgetune.devices.guardian.journal import Journals
from edgetune.devices.guardian.protocol import Stopped
from edgetune.errors import DeviceError, NotRestoredError

FOUND = {"sys/class/devfreq/17000000.gpu/min_freq": "306000000", "sys/kernel/debug/bpmp/debug/clk/emc/rate": "0"}


class Killed(BaseException):
    """The process was killed."""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("boot-1\n")
    (tmp_path / "var/lib").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def journals(root):
    opened = Journals("jetson", root)
    opened.prepare()
    return opened


def restarted(root):
    (root / "proc/sys/kernel/random/boot_id").write_text("boot-2\n")
    return Journals("jetson", root)


def test_what_was_begun_is_read_back_by_the_next_process(journals, root):
    journals.begin(FOUND)
    entry = Journals("jetson", root).read("run")
    assert entry.snapshot == FOUND
    assert list(entry.snapshot) == list(FOUND), "the order in which it is put back"
    assert (entry.boot_id, entry.pid, entry.state) == ("boot-1", os.getpid(), "run")


def test_it_is_private(journals):
    old = os.umask(0)
    try:
        journals.begin(FOUND)
    finally:
        os.umask(old)
    assert stat.S_IMODE(journals.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(journals.path("run").stat().st_mode) == 0o600


def test_file_and_folder_are_synced_in_the_order_that_survives_a_power_cut(journals, monkeypatch):
    order = []
    real_fsync, real_replace = os.fsync, Path.replace

    def fsync(descriptor):
        order.append("sync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync file")
        real_fsync(descriptor)

    def replace(self, target):
        order.append("rename")
        return real_replace(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    journals.begin(FOUND)
    assert order == ["sync file", "rename", "sync folder"]
    journals.end()
    assert order[3:] == ["sync folder"]


@pytest.mark.parametrize("call", ["open", "write", "fsync", "close"])
@pytest.mark.parametrize("number", [1, 2])
def test_killed_anywhere_in_beginning_it_leaves_the_old_state_or_the_new_one(journals, monkeypatch, call, number):
    count, real = 0, getattr(os, call)

    def dies(*arguments, **options):
        nonlocal count
        count += 1
        if count == number:
            raise Killed
        return real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, dies)
        try:
            journals.begin(FOUND)
        except Killed:
            pass
        else:
            assert call == "write"  # it takes only one
    entry = journals.read("run")
    assert entry is None or entry.snapshot == FOUND
    journals.begin({"sys/other": "1"})
    assert journals.read("run").snapshot == {"sys/other": "1"}


def test_a_full_disk_is_an_error_and_leaves_nothing_behind(journals, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(DeviceError, match="No space left"):
        journals.begin(FOUND)
    assert list(journals.folder.iterdir()) == []


def test_interrupted_by_a_signal_it_leaves_nothing_beside_it(journals, monkeypatch):
    def interrupted(_):
        raise Stopped

    journals.begin(FOUND)
    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(Stopped):
        journals.begin(FOUND | {"sys/more": "1"})
    assert [path.name for path in journals.folder.iterdir()] == ["jetson.run.json"]
    assert journals.read("run").snapshot == FOUND


def test_cut_short_anywhere_it_is_one_clear_error(journals):
    journals.begin(FOUND)
    path = journals.path("run")
    whole = path.read_bytes()
    for length in range(len(whole) - 1):  # the last byte is the line's end
        path.write_bytes(whole[:length])
        with pytest.raises(NotRestoredError, match="cannot be used"):
            journals.read("run")


def test_changed_anywhere_it_is_an_error_or_says_the_same(journals):
    journals.begin(FOUND)
    path = journals.path("run")
    whole, entry = path.read_bytes(), journals.read("run")
    for at in range(len(whole)):
        for change in (1, 16):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :])
            with contextlib.suppress(NotRestoredError):
                assert journals.read("run") == entry


@pytest.mark.parametrize(
    "text", ["", "\0" * 400, "null", "[]", "{}", "[" * 100_000, '{"crc32": 0}', '{"snapshot": NaN}', "\ud7ff" * 9]
)
def test_what_is_no_journal_is_one_clear_error(journals, text):
    journals.path("run").write_text(text)
    with pytest.raises(NotRestoredError, match="cannot be used"):
        journals.read("run")


@pytest.mark.parametrize(
    "snapshot",
    [
        {"/etc/passwd": "x"},
        {"sys/../etc/passwd": "x"},
        {"../etc/passwd": "x"},
        {"": "x"},
        {"sys//x": "x"},
        {"sys/a b": "x"},
        {"sys/x": "line\nline"},
        {"sys/x": "\x1b[2J"},
        {"sys/x": "9" * 5000},
    ],
)
def test_names_and_values_that_no_snapshot_holds_are_neither_noted_nor_carried_out(journals, snapshot):
    with pytest.raises(DeviceError, match="cannot be recorded"):
        journals.begin(snapshot)
    rewrite(journals, snapshot=snapshot)
    with pytest.raises(NotRestoredError, match="cannot be used"):
        journals.read("run")


def rewrite(journals, **fields):
    """Write a journal that is not what a guardian writes, with the checksum that fits."""
    journals.begin(FOUND)
    journals.write(journals.read("run"), **fields)


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_values_that_are_not_text_are_refused_though_the_checksum_fits(journals):
    rewrite(journals, snapshot={"sys/x": 5})
    with pytest.raises(NotRestoredError, match=r"snapshot\.sys/x"):
        journals.read("run")


def test_a_link_in_its_place_is_not_followed(journals, root):
    elsewhere = root / "elsewhere.json"
    journals.begin(FOUND)
    journals.path("run").rename(elsewhere)
    journals.path("run").symlink_to(elsewhere)
    with pytest.raises(NotRestoredError):
        journals.read("run")


def test_a_pipe_in_its_place_does_not_hang(journals):
    os.mkfifo(journals.path("run"))
    with pytest.raises(NotRestoredError):
        journals.read("run")


def test_a_journal_of_another_version_is_not_carried_out(journals):
    rewrite(journals, version=2)
    with pytest.raises(NotRestoredError, match="version 2"):
        journals.read("run")


def test_the_kept_journal_is_not_taken_for_the_runs(journals):
    journals.begin(FOUND)
    journals.path("run").rename(journals.path("kept"))
    with pytest.raises(NotRestoredError, match="'run'"):
        journals.read("kept")


@pytest.mark.parametrize("mode", [0o775, 0o770, 0o707])
def test_a_folder_that_others_can_write_to_is_refused(journals, mode):
    journals.folder.chmod(mode)
    with pytest.raises(DeviceError, match="can write"):
        journals.prepare()


def test_a_folder_that_others_can_read_is_closed_to_them(journals):
    journals.folder.chmod(0o755)
    journals.prepare()
    assert stat.S_IMODE(journals.folder.stat().st_mode) == 0o700


def test_a_link_instead_of_the_folder_is_refused(root):
    (root / "elsewhere").mkdir(mode=0o700)
    (root / "var/lib/edgetune").symlink_to(root / "elsewhere")
    with pytest.raises(DeviceError, match="can write"):
        Journals("jetson", root).prepare()


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "var").write_text("a file")
    with pytest.raises(DeviceError, match="cannot be kept"):
        Journals("jetson", tmp_path).prepare()


def test_keeping_moves_what_was_found_out_of_the_runs_journal(journals):
    journals.begin(FOUND)
    journals.keep(FOUND)
    assert journals.read("run") is None
    assert journals.read("kept").snapshot == FOUND


def test_keeping_again_keeps_what_was_found_first_unless_the_machine_restarted(journals, root):
    journals.keep(FOUND)
    journals.keep(dict.fromkeys(FOUND, "7"))
    assert journals.read("kept").snapshot == FOUND
    later = restarted(root)
    later.keep({"sys/other": "3"})
    assert later.read("kept").snapshot == {"sys/other": "3"}
    assert later.read("kept").boot_id == "boot-2"


def test_keeping_again_adds_what_only_the_later_run_found(journals):
    journals.keep(FOUND)
    journals.keep(dict.fromkeys(FOUND, "7") | {"sys/hidden/until/then": "2"})
    journals.keep({"sys/hidden/until/then": "3"})
    assert journals.read("kept").snapshot == FOUND | {"sys/hidden/until/then": "2"}
