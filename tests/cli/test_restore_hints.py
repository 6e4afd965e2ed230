"""Exit code 6 is no dead end: each situation in which it comes about, and its hint followed to the letter."""

import errno
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from edgetune.cli.screen import Screen
from edgetune.devices.guardian.journal import Journals
from edgetune.errors import DeviceError
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_jetson import open_fake
from edgetune.testing.fake_kernel import FakeKernel, Killed
from edgetune.workflows.device.device import restore
from edgetune.workflows.device.options import RestoreOptions
from fakes.guardian_calls import apply_line, guard, request_line

SLOW = apply_line(1, cpu_cores=2, gpu_mhz=76.8)
GPU = "sys/class/devfreq/57000000.gpu"
GONE = "sys/class/devfreq/57000000.gv99/max_freq"


class Left:
    """A fake Nano on which a run was killed, or a mode was kept."""

    def __init__(self, root, state):
        self.kernel = make_board(root, "jetson-nano", debugfs="unmounted")
        self.before = self.kernel.settings()
        self.named = ("jetson", "--root", str(root))
        self.journals = Journals("jetson", root)
        self.state = state
        if state == "kept":
            assert guard(open_fake(root), root, SLOW, request_line(2, "keep")).code == 0
        else:
            self.kernel.fail_at(4, "kill-after")
            with pytest.raises(Killed):
                guard(open_fake(root), root, SLOW)
        assert self.kernel.settings() != self.before

    @property
    def path(self):
        return self.journals.path(self.state)

    def rewrite(self, **fields):
        self.journals._write(self.journals.read(self.state).model_copy(update=fields))

    def add(self, **snapshot):
        self.rewrite(snapshot={**self.journals.read(self.state).snapshot, **snapshot})


def cut(left):
    left.path.write_bytes(left.path.read_bytes()[:200])


def empty(left):
    left.path.write_bytes(b"")


def of_another_version(left):
    left.rewrite(version=99)


def of_another_device(left):
    text = json.loads(left.path.read_text(encoding="utf-8"))
    left.rewrite()
    left.path.write_text(json.dumps({**text, "device": "host"}))


def names_a_file_that_went_away(left):
    left.add(**{GONE: "921600000"})


def holds_a_value_that_the_kernel_refuses(left):
    left.add(**{f"{GPU}/max_freq": "0"})


def refused_for_a_while(left):
    left.kernel.deny_writing(f"{GPU}/max_freq", errno.EBUSY)


def mode_unknown(left):
    (left.kernel.root / "var/lib/nvpmodel/status").unlink()


SITUATIONS = [
    cut,
    empty,
    of_another_version,
    of_another_device,
    names_a_file_that_went_away,
    holds_a_value_that_the_kernel_refuses,
    refused_for_a_while,
    mode_unknown,
]


def follow(hint, left, edgetune):
    """Do what a hint says, in its order, until a command of edgetune ends with 0; return the last such."""
    ended = None
    for step in re.split(r";|, then:?|, which|, or", hint):
        if "sudo nvpmodel -m NUMBER" in step:
            assert FakeKernel(left.kernel.root, user="root").nvpmodel("-m", "0") == (0, "")
        if "restart the machine" in step:
            left.kernel.power_cut()
        if command := re.search(r"edgetune (device restore jetson(?: --forget)?)", step):
            ended = edgetune(*shlex.split(command[1]), *left.named[1:])
            if ended.code == 0:
                return ended
    return ended


@pytest.mark.parametrize(("situation", "state"), [*((situation, "run") for situation in SITUATIONS), (cut, "kept")])
def test_the_hint_of_every_board_that_is_not_restored_leads_to_one_that_is(edgetune, tmp_path, situation, state):
    left = Left(tmp_path / "root", state)
    situation(left)
    refused = edgetune("device", "restore", *left.named)
    assert refused.code == 6
    error, hint = refused.err.splitlines()
    assert error.startswith("error: ")
    shutil.rmtree(left.kernel.root / ".fake-kernel/denied", ignore_errors=True)
    ended = follow(hint.removeprefix("hint: "), left, edgetune)
    assert (ended.code, ended.err) == (0, "")
    assert not left.path.exists()
    if situation is holds_a_value_that_the_kernel_refuses:  # given up; the hint's last word is the restart
        left.kernel.power_cut()
    assert left.kernel.settings() == left.before


def test_settings_missing_in_a_new_kernel_are_listed_and_the_rest_is_restored(edgetune, tmp_path):
    left = Left(tmp_path / "root", "run")
    names_a_file_that_went_away(left)
    refused = edgetune("device", "restore", *left.named)
    assert f"/{GONE} is not put back to 921600000: the board shows no such setting now" in refused.err
    assert left.kernel.settings() == left.before
    assert left.path.exists()
    forgotten = edgetune("device", "restore", *left.named, "--forget", "--json")
    (told,) = json.loads(forgotten.out)["restored"]
    assert f"/{GONE} is not put back to 921600000" in told
    assert told.endswith("this is forgotten now")
    assert not left.path.exists()


def test_forgetting_puts_back_first_what_can_be(edgetune, tmp_path):
    left = Left(tmp_path / "root", "run")
    forgotten = edgetune("device", "restore", *left.named, "--forget")
    assert "jetson was put back as it was found" in " ".join(forgotten.out.split())
    assert left.kernel.settings() == left.before


def test_a_dry_run_changes_nothing_and_cannot_forget(edgetune, tmp_path):
    left = Left(tmp_path / "root", "kept")
    before, text = left.kernel.settings(), left.path.read_bytes()
    looked = edgetune("device", "restore", *left.named, "--dry-run", "--json")
    (told,) = json.loads(looked.out)["would_restore"]
    assert f"/{GPU}/max_freq from 76800000 to 921600000" in told
    assert (left.kernel.settings(), left.path.read_bytes()) == (before, text)
    assert edgetune("device", "restore", *left.named, "--dry-run", "--forget").code == 2


@pytest.fixture
def stopped(tmp_path):
    """A board in a mode that a process holds, which was stopped: it hears neither Ctrl-C nor SIGTERM."""
    kernel = make_board(tmp_path / "root", "jetson-nano", debugfs="unmounted")
    before = kernel.settings()
    words = ["device", "set", "jetson", "gpu_mhz=76.8", "--root", str(kernel.root), "--", "sleep", "60"]
    process = subprocess.Popen([sys.executable, "-m", "edgetune", *words], start_new_session=True)
    try:
        until_s = time.monotonic() + 60
        while kernel.settings() == before and time.monotonic() < until_s:
            time.sleep(0.05)
        assert kernel.settings() != before
        os.killpg(process.pid, signal.SIGSTOP)
        yield kernel, before, process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_stopped_holder_is_ended_when_that_is_asked_for_and_the_board_is_put_back(edgetune, stopped):
    kernel, before, process = stopped
    named = ("device", "restore", "jetson", "--root", str(kernel.root))
    refused = edgetune(*named)
    assert refused.code == 4
    command = refused.lines[-1].partition("or end it: edgetune ")[2].split()
    assert command == [*named, "--force"]
    assert edgetune(*command).code == 2, "there is no terminal to ask on"
    assert process.poll() is None
    assert edgetune(*command, "--yes").code == 0
    assert process.wait() == -signal.SIGKILL
    assert kernel.settings() == before


def test_a_refusal_ends_nothing(edgetune, stopped, monkeypatch):
    kernel, before, process = stopped
    asked = []
    options = RestoreOptions(name="jetson", root=str(kernel.root), force=True)
    with pytest.raises(DeviceError):
        restore(options, Screen(True), lambda question: bool(asked.append(question)))
    assert f"end process {process.pid}" in asked[0]
    assert process.poll() is None
    assert kernel.settings() != before
    assert edgetune("device", "restore", "--yes").code == 2
    assert edgetune("device", "restore", "--force", "--dry-run").code == 2
