"""One edgetune at a time, whoever made the lock's file and however its holder ended."""

import json
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest

from edgetune.devices.guardian.lock import hold, hold_journal
from edgetune.errors import DeviceError

HOLD = """
import sys, pathlib
from edgetune.devices.guardian.lock import hold
with hold("jetson", pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "run/lock").mkdir(parents=True)
    return tmp_path


def lock_file(root):
    return root / "run/lock/edgetune-jetson.lock"


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
    assert message.startswith(f"the board is in use by another edgetune: process {holder.pid} (-c {root}), since ")
    since = message.rpartition("since ")[2]
    assert time.strptime(since, "%H:%M:%S")
    assert refused.value.hint == f"wait for it, or end it: kill {holder.pid}"


def test_the_kernel_lets_go_when_its_holder_is_killed(root, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with hold("jetson", root):
        pass


def test_it_can_be_had_again_and_devices_do_not_exclude_each_other(root):
    with hold("jetson", root), hold("nvidia:0", root), hold("nvidia:1", root):
        pass
    with hold("jetson", root):
        pass


def test_a_file_left_behind_is_no_obstacle(root):
    lock_file(root).write_text('{"pid": 1234, "started_s": 0, "command": "edgetune profile"}')
    with hold("jetson", root):
        assert json.loads(lock_file(root).read_text())["pid"] == os.getpid()


def test_users_share_the_file_whatever_the_umask(root):
    old = os.umask(0o077)
    try:
        with hold("jetson", root):
            assert stat.S_IMODE(lock_file(root).stat().st_mode) == 0o666
    finally:
        os.umask(old)


def test_an_existing_file_is_opened_without_asking_to_create_it(root, monkeypatch):
    """The kernel refuses O_CREAT on another user's file in a folder like /run/lock (fs.protected_regular)."""
    lock_file(root).touch()
    real, asked = os.open, []
    monkeypatch.setattr(os, "open", lambda path, flags, *mode: asked.append(flags) or real(path, flags, *mode))
    with hold("jetson", root):
        assert not any(flags & os.O_CREAT for flags in asked)


def test_one_made_by_somebody_else_at_the_same_moment_is_taken(root, monkeypatch):
    real = os.open

    def overtaken(path, flags, *mode):
        if flags & os.O_CREAT and not lock_file(root).exists():
            os.mknod(lock_file(root))
        return real(path, flags, *mode)

    monkeypatch.setattr(os, "open", overtaken)
    with hold("jetson", root):
        pass


def test_a_link_is_not_followed(root):
    victim = root / "victim"
    victim.write_text("precious")
    lock_file(root).symlink_to(victim)
    with pytest.raises(DeviceError, match="cannot be used"), hold("jetson", root):
        pass
    assert victim.read_text() == "precious"


def test_a_second_name_of_another_file_is_not_written(root):
    victim = root / "victim"
    victim.write_text("precious")
    lock_file(root).hardlink_to(victim)
    with pytest.raises(DeviceError, match="not a file of its own"), hold("jetson", root):
        pass
    assert victim.read_text() == "precious"


def test_a_pipe_in_its_place_does_not_hang(root):
    os.mkfifo(lock_file(root))
    with pytest.raises(DeviceError, match="not a file of its own"), hold("jetson", root):
        pass


@pytest.mark.parametrize(
    "note",
    [
        "", "{", "[]", "null", '{"pid": -1, "started_s": 0, "command": "x"}', '{"pid": 5}', "[" * 4000,
        '{"pid": 1e999, "started_s": 0, "command": ""}', '{"pid": 9, "started_s": 1e300, "command": ""}',
        '{"pid": 9, "started_s": NaN, "command": ""}', '{"pid": "x", "started_s": 0, "command": ""}', "\xff",
    ],
)  # fmt: skip
def test_a_note_that_says_nothing_sensible_is_not_repeated(root, holder, note):
    lock_file(root).write_bytes(note.encode("latin-1"))
    with pytest.raises(DeviceError) as refused, hold("jetson", root):
        pass
    assert refused.value.message == "the board is in use by another edgetune"


def test_a_note_cannot_steer_a_terminal(root, holder):
    lock_file(root).write_text(json.dumps({"pid": 9, "started_s": 0, "command": "\x1b[2J\nhint: rm -rf /"}))
    with pytest.raises(DeviceError) as refused, hold("jetson", root):
        pass
    assert refused.value.message.isprintable()


def test_without_its_folder_the_one_for_temporary_files_serves(tmp_path):
    (tmp_path / "tmp").mkdir()
    with hold("jetson", tmp_path):
        assert (tmp_path / "tmp/edgetune-jetson.lock").exists()


def test_without_any_folder_it_is_an_error(tmp_path):
    with pytest.raises(DeviceError, match="cannot be used"), hold("jetson", tmp_path):
        pass


def _hold_once(root, barrier, results):
    barrier.wait()
    try:
        with hold("jetson", root):
            results.put("held")
            barrier.wait()
    except DeviceError:
        results.put("refused")
        barrier.wait()


def test_of_many_at_once_exactly_one_has_it(root):
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(4), context.Queue()
    processes = [context.Process(target=_hold_once, args=(root, barrier, results)) for _ in range(4)]
    for process in processes:
        process.start()
    outcomes = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join()
    assert sorted(outcomes) == ["held", "refused", "refused", "refused"]


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
