"""Temporary folders: private, gone afterwards, and cleaned by the next run where one was killed."""

import os
import signal
import stat
import subprocess
import sys
import tempfile

import pytest

from edgetune.artifacts.output_file import scratch_folder

KILLED = """
import os, signal
from edgetune.artifacts.output_file import scratch_folder
with scratch_folder() as folder:
    (folder / "weights").write_bytes(bytes(1000))
    (folder / "inner").mkdir()
    print(folder.name, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield tmp_path
    tempfile.tempdir = None


def names(root):
    return sorted(path.name for path in root.iterdir())


def test_it_is_private_and_gone_afterwards(root):
    with scratch_folder() as folder:
        assert folder.name.startswith(f"edgetune-{os.geteuid()}-")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "file").write_bytes(b"")
    assert names(root) == []


def test_what_a_killed_run_left_goes_with_the_next_one(root):
    ended = subprocess.run([sys.executable, "-c", KILLED], check=False, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert names(root) == sorted(ended.stdout.split())
    with scratch_folder() as folder:
        assert names(root) == [folder.name]


def test_what_is_in_use_or_not_ours_stays(root):
    victim = root / "victim"
    victim.mkdir()
    (victim / "file").write_bytes(b"")
    (root / f"edgetune-{os.geteuid()}-{'0' * 16}").symlink_to(victim)
    (root / f"edgetune-{os.geteuid() + 1}-{'0' * 16}").mkdir()
    (root / f"edgetune-{os.geteuid()}").mkdir()
    before = names(root)
    with scratch_folder() as first, scratch_folder() as second:
        assert first.exists()
        assert second.exists()
    assert names(root) == before
    assert (victim / "file").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder of another user")
def test_a_folder_of_another_user_with_our_name_stays(root):
    planted = root / f"edgetune-0-{'1' * 16}"
    planted.mkdir()
    os.chown(planted, 12345, 12345)
    with scratch_folder():
        assert planted.exists()
