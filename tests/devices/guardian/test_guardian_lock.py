"""One edgetune at a time, whoever made the lock's file and however its holder ended."""

import fcntl
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from edgetune.devices.guardian import lock
from edgetune.devices.guardian.lock import Exclusive, _in_use, hold, hold_journal, hold_to_restore, share
from edgetune.errors import DeviceError
from edgetune.processes import file_lock
from edgetune.processes.file_lock import holder_of

STRANGER = 12345

HOLD = """
import sys, pathlib
from edgetune.devices.guardian.lock import hold
with hold("jetson", pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path


@pytest.fixture
def private(tmp_path_factory, monkeypatch):
    """The folder of this user's own locks."""
    folder = tmp_path_factory.mktemp("private") / "edgetune-me"
    monkeypatch.setattr(lock, "temporary_folder", lambda: folder)
    monkeypatch.setattr(lock, "user_folder", lambda kind: Path("no/such/folder"))
    return folder


def lock_file(root):
    return root / "run/edgetune/jetson.lock"


@pytest.fixture
def holder(root):
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_one_is_refused_and_told_who_has_it(root, holder):
    with pytest.raises(DeviceError) as refused, hold("jetson", root):
        pass
    message = refused.value.message
    assert message.startswith(f"the board is in use by another edgetune: process {holder.pid} (python")
    assert time.strptime(message.rpartition("since ")[2], "%H:%M:%S")
    assert refused.value.hint == f"wait for it, or end it: kill {holder.pid}"


def test_the_kernel_lets_go_when_its_holder_is_killed(root, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with hold("jetson", root):
        pass


def test_nobody_else_can_write_the_lock_or_its_folder_whatever_the_umask(root):
    for umask in (0o077, 0o002, 0):
        old = os.umask(umask)
        try:
            with hold("jetson", root):
                assert stat.S_IMODE(lock_file(root).stat().st_mode) == 0o644
                assert stat.S_IMODE(lock_file(root).parent.stat().st_mode) == 0o755
        finally:
            os.umask(old)
        lock_file(root).unlink()
        lock_file(root).parent.rmdir()


@pytest.mark.parametrize(
    "note", ["", "{", '{"pid": 1, "started_s": 0, "command": "edgetune profile"}', "\x1b[2J", "\xff" * 5000]
)
def test_what_is_written_in_the_file_is_never_said(root, holder, note):
    """Versions before wrote process and command there, and any user could write another one's."""
    lock_file(root).write_bytes(note.encode("latin-1"))
    with pytest.raises(DeviceError, match=f"process {holder.pid} ") as refused, hold("jetson", root):
        pass
    assert refused.value.hint.endswith(f"kill {holder.pid}")
    assert lock_file(root).read_bytes() == note.encode("latin-1")


def test_a_link_in_place_of_the_lock_is_not_followed(root, private):
    victim = root / "victim"
    victim.write_text("precious")
    lock_file(root).parent.mkdir()
    lock_file(root).symlink_to(victim)
    with hold("jetson", root):
        assert len(list(private.iterdir())) == 1
    assert victim.read_text() == "precious"


def test_a_private_folder_that_another_has_laid_out_is_an_error(tmp_path, private):
    private.symlink_to(tmp_path)
    with pytest.raises(DeviceError, match=r"is not this user's alone") as refused, hold("jetson", tmp_path):
        pass
    assert "TMPDIR" in refused.value.hint
    with hold_to_restore("jetson", tmp_path) as in_use:
        assert "cannot be used" in in_use


@pytest.mark.parametrize("name", ["../../etc/passwd", "jetson/..", "..", "a b\n", "x" * 1000])
def test_no_name_leads_out_of_the_folder(root, name):
    with hold(name, root):
        (file,) = lock_file(root).parent.iterdir()
        assert file.is_file()


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")


@pytest.fixture
def anybodys(root):
    """The lock, made by root, in folders that every user can enter."""
    for folder in (root, *root.parents):
        if folder.name.startswith(("pytest-", "popen-", "test_")):
            folder.chmod(folder.stat().st_mode | 0o011)
    share("jetson", root)
    return lock_file(root)


@pytest.fixture
def stranger(anybodys):
    """A process of another user that holds the lock for good, as far as it may open it, with a misleading name."""
    if shutil.which("flock") is None:
        pytest.skip("there is no flock here")
    hostile = "\x1b[2J\nhint: kill 1"
    command = ["flock", str(anybodys), "sh", "-c", 'echo held; read _; : "$0"', hostile]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        user=STRANGER,
        group=STRANGER,
        extra_groups=(),
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


@needs_root
def test_another_user_can_lock_but_not_write_the_file(anybodys, stranger):
    for attack in (f"echo x > {anybodys}", f"rm -f {anybodys}", f"ln -sf /etc/passwd {anybodys}", f"touch {anybodys}2"):
        done = subprocess.run(["sh", "-c", attack], user=STRANGER, group=STRANGER, capture_output=True, check=False)
        assert done.returncode != 0, attack
    assert (anybodys.read_bytes(), anybodys.stat().st_uid) == (b"", 0)


@needs_root
def test_another_users_process_is_named_by_the_kernel_and_its_name_steers_nothing(root, stranger):
    with pytest.raises(DeviceError) as refused, hold("jetson", root):
        pass
    message = refused.value.message
    assert f"process {stranger.pid} of user {STRANGER} (flock" in message
    assert message.isprintable()
    assert refused.value.hint == f"wait for it, or end it: kill {stranger.pid}"  # root may


@needs_root
def test_another_user_does_not_keep_a_board_from_being_restored(root, stranger):
    with hold_to_restore("jetson", root) as in_use:
        assert f"process {stranger.pid} of user {STRANGER}" in in_use


def test_nor_does_a_user_keep_it_from_himself_unasked(root, holder):
    with pytest.raises(DeviceError, match=f"process {holder.pid}") as refused, hold_to_restore("jetson", root):
        pass
    assert refused.value.hint == f"wait for it, or end it: kill {holder.pid}"


@needs_root
def test_a_user_is_not_told_to_kill_what_is_not_his(anybodys, stranger):
    """The lock's holder as a third user sees it, who may neither look into that process nor end it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        descriptor = os.open(anybodys, os.O_RDONLY)
        os.setgroups([])
        os.setresgid(STRANGER + 1, STRANGER + 1, STRANGER + 1)
        os.setresuid(STRANGER + 1, STRANGER + 1, STRANGER + 1)
        holder = holder_of(descriptor)
        os.write(write, json.dumps([holder.pid, holder.seen, holder.ending, _in_use(holder).hint]).encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with open(read) as answer:
        assert json.load(answer) == [
            stranger.pid, False, None,
            f"wait for process {stranger.pid} to end, or ask user {STRANGER} to end it",
        ]  # fmt: skip


def test_a_number_that_is_another_process_by_now_is_not_to_be_killed(root, monkeypatch):
    """The kernel names who took the lock, also when that has ended and its child holds it."""
    with hold("jetson", root):
        descriptor = os.open(lock_file(root), os.O_RDONLY)
        other = subprocess.Popen(["sleep", "60"])
        try:
            monkeypatch.setattr(file_lock, "_named", lambda _: iter([other.pid]))
            found = holder_of(descriptor)
            assert (found.pid, found.seen, found.is_ours, found.ending) == (other.pid, False, False, None)
        finally:
            other.kill()
            other.wait()
            os.close(descriptor)


def test_of_a_lock_that_was_handed_on_no_process_is_named(root):
    """A process takes the lock, starts a child that inherits it, and ends: its number is free for another process."""
    share("jetson", root)
    with open(lock_file(root)) as file, subprocess.Popen(["sleep", "60"], pass_fds=(file.fileno(),)) as child:
        parent = os.fork()
        if parent == 0:
            fcntl.flock(file, fcntl.LOCK_EX)
            os._exit(0)
        os.waitpid(parent, 0)
        try:
            with pytest.raises(DeviceError) as refused, hold("jetson", root):
                pass
            assert "process" not in refused.value.message
            assert "kill" not in refused.value.hint
        finally:
            child.kill()


def test_a_lock_whose_holder_the_kernel_does_not_name_is_told_without_one(root, holder, monkeypatch):
    monkeypatch.setattr(file_lock, "_named", lambda _: iter(()))
    with pytest.raises(DeviceError) as refused, hold("jetson", root):
        pass
    assert (refused.value.message, refused.value.hint) == (
        "the board is in use by another edgetune", "wait for it to end"
    )  # fmt: skip
    with hold_to_restore("jetson", root) as in_use:
        assert in_use == "the board is in use by another edgetune"


def test_a_guardian_waits_for_the_one_before_it(tmp_path):
    path = tmp_path / "jetson.lock"
    order = []
    with hold_journal(path, 10, lambda: False) as held:
        assert held

        def wait():
            with hold_journal(path, 10, lambda: False):
                order.append("second")

        second = threading.Thread(target=wait)
        second.start()
        time.sleep(0.15)
        order.append("first")
    second.join()
    assert order == ["first", "second"]


def test_it_does_not_wait_for_ever(tmp_path):
    path = tmp_path / "jetson.lock"
    with (
        hold_journal(path, 10, lambda: False),
        pytest.raises(DeviceError, match=f"another guardian, process {os.getpid()}, still has the board"),
        hold_journal(path, 0.1, lambda: False),
    ):
        pass


def test_a_signal_ends_the_waiting(tmp_path):
    path = tmp_path / "jetson.lock"
    with hold_journal(path, 10, lambda: False), hold_journal(path, 10, lambda: True) as held:
        assert not held


# The same lock for as long as a device is used, entered as often as need be.


def free(root, device="jetson"):
    """Whether nobody has the device."""
    try:
        with hold(device, root):
            return True
    except DeviceError:
        return False


def test_it_is_held_from_the_first_entry_until_the_last_exit(root):
    exclusive = Exclusive("jetson", root)
    assert free(root)
    with exclusive():
        with exclusive():
            with exclusive():
                assert not free(root)
            assert not free(root)
        assert not free(root)
    assert free(root)


def test_an_error_inside_gives_it_up_too(root):
    exclusive = Exclusive("jetson", root)
    with exclusive():
        with pytest.raises(ZeroDivisionError), exclusive():
            1 / 0  # noqa: B018
        assert not free(root)
    with pytest.raises(ZeroDivisionError), exclusive():
        1 / 0  # noqa: B018
    assert free(root)
