"""A process that sudo started is the caller for good, and a process of root does a few steps for it: real processes."""

import ctypes
import errno
import json
import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from edgetune.devices.sysfs import Sysfs
from edgetune.errors import DeviceError
from edgetune.processes import privilege
from edgetune.processes.privilege import act_as_caller, ask_root, holds_root
from edgetune.stages.schedule.cgroups import make_limit

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or sys.platform != "linux", reason="only root on Linux can act for another user"
)

NOBODY = pwd.getpwnam("nobody")
USER = NOBODY.pw_uid
SUDO = {"SUDO_UID": str(USER), "SUDO_GID": "0"}
VARIABLES = ("SUDO_UID", "SUDO_GID", "SUDO_USER", "PKEXEC_UID", "DOAS_USER")
_PR_GET_DUMPABLE = 3


@pytest.fixture
def forked(monkeypatch):
    """Run a function in a process of its own, started for a caller, and return what it returns, as plain data."""
    monkeypatch.setattr(privilege, "_NEEDED", ())  # the tests' Python may lie in root's home

    def fork(function, environment=SUDO, *, act=True):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                for name in VARIABLES:
                    os.environ.pop(name, None)
                os.environ.update(environment)
                if act:
                    act_as_caller()
                os.write(write, json.dumps(function()).encode())
            except BaseException as error:
                os.write(write, json.dumps([type(error).__name__, str(error)]).encode())
            finally:
                os._exit(0)
        os.close(write)
        with open(read) as answer:
            said = answer.read()
        os.waitpid(child, 0)
        return json.loads(said)

    return fork


def identity():
    return [*os.getresuid(), *os.getresgid(), sorted(os.getgroups())]


ACCOUNT = [NOBODY.pw_uid] * 3 + [NOBODY.pw_gid] * 3


@pytest.mark.parametrize(
    ("environment", "through"),
    [(SUDO, "sudo"), ({"PKEXEC_UID": str(NOBODY.pw_uid)}, "pkexec"), ({"DOAS_USER": "nobody"}, "doas")],
)
def test_the_process_becomes_the_caller_whoever_gave_root(forked, environment, through):
    groups = sorted(set(os.getgrouplist("nobody", NOBODY.pw_gid)))
    assert forked(identity, environment) == [*ACCOUNT, groups]
    assert forked(lambda: [*privilege.acting_as, holds_root()], environment) == [through, list(NOBODY), True]
    assert forked(lambda: [os.environ["HOME"], os.environ["USER"]], environment) == [NOBODY.pw_dir, "nobody"]


@pytest.mark.parametrize(
    "environment", [{}, {"SUDO_UID": "0", "SUDO_GID": "0"}, {"PKEXEC_UID": "0"}, {"DOAS_USER": "root"}]
)
def test_root_for_itself_stays_root(forked, environment):
    assert forked(identity, environment)[:3] == [0, 0, 0]
    assert forked(lambda: [privilege.acting_as, privilege.has_helper()], environment) == [None, False]


@pytest.mark.parametrize(
    "environment", [{"DOAS_USER": "no such account"}, {"SUDO_UID": str(2**32 - 1)}, {"PKEXEC_UID": "9" * 30}]
)
def test_a_caller_that_cannot_be_is_an_error_and_never_root(forked, environment):
    kind, message = forked(identity, environment)
    assert kind == "DeviceError"
    assert "there is no such account" in message


def test_an_installation_that_the_caller_may_not_read_is_reported(forked, monkeypatch, tmp_path):
    tmp_path.chmod(0o700)
    monkeypatch.setattr(privilege, "_NEEDED", ("/", str(tmp_path)))
    kind, message = forked(identity)
    assert (kind, message) == ("DeviceError", f"nobody, who called sudo, may not read {tmp_path}")


def helper():
    """Return the process of root that works for this one."""
    return privilege._helper_process.pid


def status(pid, names=("Uid", "Gid", "Groups", "CapPrm")):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: words for name, *words in (line.replace(":", " ").split() for line in lines) if name in names}


def test_there_is_no_way_back_for_it_and_its_programs(forked):
    def look():
        refused = []
        for call in (lambda: os.setresuid(0, 0, 0), lambda: os.setresgid(0, 0, 0), lambda: os.setgroups([0])):
            try:
                call()
            except PermissionError:
                refused.append(True)
        with subprocess.Popen(["sleep", "60"]) as child:
            found = [refused, status("self"), status(child.pid)]
            child.kill()
        return found

    gid = str(NOBODY.pw_gid)
    caller = {"Uid": [str(USER)] * 4, "Gid": [gid] * 4, "Groups": [gid], "CapPrm": ["0" * 16]}
    assert forked(look) == [[True] * 3, caller, caller]


def test_the_process_of_root_takes_nothing_of_the_caller_and_ends_with_it(forked, tmp_path):
    def look():
        os.chdir(tmp_path)
        os.environ["LD_PRELOAD"] = os.environ["PYTHONPATH"] = os.environ["PATH"] = "/hostile"
        act_as_caller()
        ask_root("listed", "sys/class/*")  # it has begun
        return helper()

    def described():
        ask_root("listed", "sys/class/*")
        return [helper(), status(helper())["Uid"], os.path.realpath(sys.executable)]

    pid, uid, _ = forked(described)
    assert uid == ["0"] * 4
    psutil = pytest.importorskip("psutil")
    psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=30)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    assert isinstance(forked(look, act=False), int), "it starts all the same"


REFUSED = [
    ("read_sensor", "sys/kernel/debug/../../etc/shadow"), ("read_sensor", "etc/shadow"), ("read_sensor", 4711),
    ("read_sensor", "sys/kernel/debug/kmsg"), ("listed", "etc/*"), ("listed", "sys/../root/*"),
    ("permitted", "etc/shadow", os.R_OK), ("share_system", "../../etc/cron.d/x"), ("guard", "--root"),
    ("guard", "host"),
    ("make_group", "/etc"), ("make_group", "/sys/fs/cgroup/../../../etc"), ("remove_group", "/etc/edgetune-1-1"),
    ("write_group", "/etc", "passwd", 0), ("start_scope", 1, 1 << 20, 0), ("os.system", "id"), ("__import__", "os"),
    ("main", []), ("read_sensor",), (["read_sensor"], "x"),
]  # fmt: skip


def test_the_process_of_root_does_nothing_but_its_steps(forked):
    def attempts():
        answers = []
        for step in REFUSED:
            try:
                answers.append(str(ask_root(*step)))
            except OSError as error:
                answers.append(error.errno)
        return [answers, len(ask_root("listed", "sys/class/*")) > 3]

    answers, goes_on = forked(attempts)
    refused = {errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOENT}
    assert [step for step, answer in zip(REFUSED, answers, strict=True) if answer not in refused] == []
    assert goes_on


def test_a_step_whose_answer_was_interrupted_does_not_answer_the_next(forked):
    def late():
        privilege._helper.send(json.dumps([10**6, "listed", ["sys/class/*"]]).encode())  # nobody waits for this one
        return ask_root("listed", "sys/class/net")

    assert forked(late) == ["sys/class/net"]


def test_root_that_is_given_up_does_not_come_back(forked):
    def give_up():
        privilege.give_root_up()
        return [os.getresuid(), holds_root(), privilege.acting_as.account.pw_name]

    assert forked(give_up) == [[USER] * 3, False, "nobody"]


def test_the_process_cannot_be_attached_to_and_leaves_no_core(forked):
    assert forked(lambda: ctypes.CDLL(None).prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0)) != 1


def test_the_umask_stays_and_root_own_folders_are_forgotten(forked):
    old = os.umask(0o027)
    try:
        assert forked(lambda: os.umask(0), {**SUDO, "XDG_CACHE_HOME": "/root/.cache"}) == 0o027
        assert forked(lambda: "XDG_CACHE_HOME" in os.environ, {**SUDO, "XDG_CACHE_HOME": "/root/.cache"}) is False
    finally:
        os.umask(old)


def test_energy_counters_that_the_kernel_shows_to_root_alone_are_read(forked):
    path = next(iter(Path("/sys/class/powercap").glob("*/energy_uj")), None)
    if path is None:
        pytest.skip("this machine has no energy counters")
    name = str(path.relative_to("/"))
    assert forked(lambda: int(Sysfs().read(name)) > 0) is True


def test_below_another_root_there_is_no_root_to_help(forked, tmp_path):
    for parent in (tmp_path, *tmp_path.parents):
        if parent.name.startswith(("pytest-", "popen-", "test_")):
            parent.chmod(parent.stat().st_mode | 0o055)
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys/secret").write_text("precious")
    (tmp_path / "sys/secret").chmod(0o600)
    assert forked(lambda: Sysfs(tmp_path).read("sys/secret"))[0] == "PermissionError"


def test_a_memory_limit_is_made_in_a_group_of_root_for_processes_of_the_caller(forked):
    def limit():
        with make_limit(1 << 30) as made:
            if made.enforced == "accounted" or made.usage is None:
                return made.reason or "systemd makes scopes"
            group = made.usage.parent
            with subprocess.Popen(["sleep", "60"]) as child:
                made.admit(child.pid)
                inside = str(child.pid) in (group / "cgroup.procs").read_text().split()
                child.kill()
            try:
                made.admit(1)
            except DeviceError as error:
                return [inside, group.stat().st_uid, os.access(group, os.W_OK), error.message, str(group)]

    found = forked(limit)
    if isinstance(found, str):
        pytest.skip(f"no control group of root here: {found}")
    assert found[:3] == [True, 0, False]
    assert "process 1 is another user's" in found[3]
    assert not Path(found[4]).exists()
