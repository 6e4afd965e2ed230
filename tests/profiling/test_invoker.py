"""Under sudo the network runs as the user who called it, in a real process; root alone stays root, and that is said."""

import os
import pwd
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from edgetune.errors import DeviceError
from edgetune.processes.child import Child
from edgetune.processes.privilege import invoking_user, runs_as_root
from edgetune.workloads.workload import Workload

REPOSITORY = Path(__file__).parents[2]
NOBODY = 65534
WHO = "import os\ndef make(b):\n    print(os.getuid(), os.getgid(), os.environ['HOME'])\n    return lambda: None\n"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def called_by(monkeypatch):
    def call(uid, gid=None):
        monkeypatch.setenv("SUDO_UID", str(uid))
        monkeypatch.setenv("SUDO_GID", str(uid if gid is None else gid))

    monkeypatch.delenv("SUDO_UID", raising=False)
    monkeypatch.delenv("SUDO_GID", raising=False)
    return call


@pytest.fixture
def anybodys_python(monkeypatch):
    """Return a Python that an unprivileged user may start; the one of the tests may lie in root's home."""
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    for python in (sys.executable, "/usr/bin/python3"):
        command = [python, "-c", "import sys, edgetune; assert sys.version_info >= (3, 10)"]
        try:
            ended = subprocess.run(command, user=NOBODY, group=NOBODY, cwd="/", capture_output=True, check=False)
        except OSError:
            continue
        if ended.returncode == 0:
            monkeypatch.setattr(sys, "executable", python)
            return python
    pytest.skip("no Python here that an unprivileged user may start")


@needs_root
def test_child_of_sudo_is_the_user_who_called_it(called_by, anybodys_python, tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("readable")
    for parent in (folder, *folder.parents):
        if parent.name.startswith(("readable", "popen-", "pytest-")):  # the temporary folders that pytest makes
            parent.chmod(parent.stat().st_mode | 0o055)
    monkeypatch.chdir("/")
    path = folder / "who.py"
    path.write_text(WHO)
    called_by(NOBODY)
    child = Child("edgetune.stages.profiling.worker:Session")
    try:
        workload = {**asdict(Workload(str(path), "who", "python", path, sha256="0")), "path": str(path)}
        prepare = {
            "command": "load", "workload": workload, "task": "train", "batch_size": 1, "cpus": [], "threads": 1,
            "ort_providers": [], "torch_device": "cpu", "inputs": None, "dimensions": {}, "seed": 0,
        }  # fmt: skip
        child.ask(prepare, deadline_s=time.monotonic() + 60)
        assert child.log_tail(1) == f"{NOBODY} {NOBODY} {pwd.getpwuid(NOBODY).pw_dir}"
    finally:
        child.close()


@needs_root
def test_python_that_the_user_may_not_start_is_reported_with_advice(called_by, monkeypatch, tmp_path):
    hidden = tmp_path / "python"
    hidden.write_text("#!/bin/sh\n")
    hidden.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(hidden))
    called_by(NOBODY)
    with pytest.raises(DeviceError) as caught:
        Child("edgetune.stages.profiling.worker:Session")
    assert "who called sudo" in caught.value.hint


@needs_root
def test_groups_and_home_are_those_of_the_account(called_by):
    account = pwd.getpwuid(NOBODY)
    called_by(NOBODY, account.pw_gid)
    user = invoking_user()
    assert (user.name, user.home) == (account.pw_name, account.pw_dir)
    assert set(user.groups) == set(os.getgrouplist(account.pw_name, account.pw_gid))
    own = user.environment({"HOME": "/root", "XDG_CACHE_HOME": "/root/.cache", "PATH": "/bin", "USER": "root"})
    assert own == {"HOME": account.pw_dir, "USER": account.pw_name, "LOGNAME": account.pw_name, "PATH": "/bin"}


@needs_root
def test_number_without_an_account_has_that_group_only(called_by):
    called_by(3_999_999_999)
    user = invoking_user()
    assert (user.uid, user.groups, user.name) == (3_999_999_999, (3_999_999_999,), None)
    assert "USER" not in user.environment({})


@needs_root
@pytest.mark.parametrize("uid", [None, "0", "-1", "root", ""])
def test_root_by_itself_stays_root(called_by, uid):
    if uid is not None:
        called_by(uid)
    assert invoking_user() is None
    assert runs_as_root()


def test_an_unprivileged_user_keeps_its_identity(called_by, monkeypatch):
    called_by(NOBODY)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert invoking_user() is None
    assert not runs_as_root()
