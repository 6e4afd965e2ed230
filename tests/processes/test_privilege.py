"""A process that sudo started is the caller in all it does, and root for single steps, in real processes as root."""

import ctypes
import json
import os
import pwd
import sys
import threading
import time
from pathlib import Path

import pytest

from edgetune.devices.sysfs import Sysfs
from edgetune.errors import DeviceError
from edgetune.processes import privilege
from edgetune.processes.privilege import RootCommand, act_as_caller, acting_as, as_root, holds_root, run, start
from edgetune.stages.schedule.limit import make_limit

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or sys.platform != "linux", reason="only root on Linux can act for another user"
)

USER = 12345
NOBODY = pwd.getpwnam("nobody")
SUDO = {"SUDO_UID": str(USER), "SUDO_GID": str(USER)}
VARIABLES = ("SUDO_UID", "SUDO_GID", "SUDO_USER", "PKEXEC_UID", "DOAS_USER")
_PR_GET_DUMPABLE = 3


@pytest.fixture
def forked(monkeypatch):
    """Run a function in a process of its own, started for a caller, and return what it returns, as plain data."""
    monkeypatch.setattr(privilege, "_require_readable", lambda user: None)  # the tests' Python may lie in root's home

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


ACCOUNT = [NOBODY.pw_uid] * 2 + [0] + [NOBODY.pw_gid] * 3


@pytest.mark.parametrize(
    ("environment", "through"),
    [
        ({"SUDO_UID": str(NOBODY.pw_uid), "SUDO_GID": str(NOBODY.pw_gid)}, "sudo"),
        ({"SUDO_UID": str(NOBODY.pw_uid)}, "sudo"),
        ({"PKEXEC_UID": str(NOBODY.pw_uid)}, "pkexec"),
        ({"DOAS_USER": "nobody"}, "doas"),
    ],
)
def test_the_process_becomes_the_caller_whoever_gave_root(forked, environment, through):
    groups = sorted(set(os.getgrouplist("nobody", NOBODY.pw_gid)))
    assert forked(identity, environment) == [*ACCOUNT, groups]
    assert forked(lambda: [acting_as().through, acting_as().label, holds_root()], environment) == [
        through, "nobody", True
    ]  # fmt: skip
    assert forked(lambda: [os.environ["HOME"], os.environ["USER"]], environment) == [NOBODY.pw_dir, "nobody"]


def test_a_caller_without_account_has_the_group_that_sudo_tells_or_none(forked):
    assert forked(identity) == [USER, USER, 0, USER, USER, USER, [USER]]
    assert forked(identity, {"PKEXEC_UID": str(USER)}) == [USER, USER, 0, *[65534] * 3, [65534]]


@pytest.mark.parametrize(
    "environment", [{}, {"SUDO_UID": "0", "SUDO_GID": "0"}, {"PKEXEC_UID": "0"}, {"DOAS_USER": "root"}]
)
def test_root_for_itself_stays_root(forked, environment):
    assert forked(identity, environment)[:3] == [0, 0, 0]
    assert forked(lambda: [acting_as(), as_root(os.geteuid)], environment) == [None, 0]


@pytest.mark.parametrize("environment", [{"DOAS_USER": "no such account"}, {"SUDO_UID": str(2**32 - 1)}])
def test_a_caller_that_cannot_be_is_an_error_and_never_root(forked, environment):
    kind, message = forked(identity, environment)
    assert kind in ("DeviceError", "OverflowError")
    assert message


def test_an_installation_that_the_caller_may_not_read_is_reported(monkeypatch, tmp_path):
    hidden = tmp_path / "python"
    hidden.write_text("#!/bin/sh\n")
    monkeypatch.setattr(sys, "executable", str(hidden))
    hidden.chmod(0)
    monkeypatch.setattr(os, "access", lambda path, *_: Path(path) != hidden)
    user = privilege.Invoker(USER, USER, (USER,), None, "/", "doas")
    with pytest.raises(DeviceError, match=f"user {USER}, who called doas, may not read {hidden}") as caught:
        privilege._require_readable(user)
    assert "install it where that user may read it" in caught.value.hint


def test_root_comes_back_for_one_step_in_one_thread(forked, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("precious")
    secret.chmod(0o600)

    def look():
        seen, ended = set(), threading.Event()

        def watch():
            while not ended.is_set():
                seen.add(_effective_user())

        watcher = threading.Thread(target=watch)
        watcher.start()
        inside = as_root(lambda: [_effective_user(), os.getegid(), time.sleep(0.05), secret.read_text()])
        ended.set()
        watcher.join()
        try:
            secret.read_text()
        except OSError as error:
            return [inside, sorted(seen), _effective_user(), type(error).__name__]
        return "read without root"

    assert forked(look) == [[0, 0, None, "precious"], [USER], USER, "PermissionError"]


def _effective_user():
    """Return the effective user of this very thread: what Python's own function says is of the thread too."""
    status = Path(f"/proc/self/task/{threading.get_native_id()}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("Uid:")).split()[2])


def test_root_that_is_given_up_does_not_come_back(forked):
    def give_up():
        privilege.give_root_up()
        words = run(RootCommand(["grep", "^Uid", "/proc/self/status"]), capture_output=True).stdout.split()
        caps = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapPrm")]
        return [
            os.getresuid(),
            holds_root(),
            as_root(os.geteuid),
            acting_as().label,
            len(set(words[1:])),
            caps[0][-16:],
        ]

    assert forked(give_up) == [[USER] * 3, False, USER, f"user {USER}", 1, "0" * 16]


def test_a_step_that_fails_leaves_no_root_behind(forked):
    def fail():
        try:
            as_root(lambda: 1 / 0)
        except ZeroDivisionError:
            return [_effective_user(), *os.getresuid()]
        return "no error"

    assert forked(fail) == [USER, USER, USER, 0]


def test_programs_are_the_caller_for_good(forked):
    def look():
        with start(["grep", "-E", "^(Uid|Gid|Groups|CapPrm|CapEff)", "/proc/self/status"], stdout=-1) as process:
            return process.stdout.read().decode().split()

    found = forked(look)
    assert found[: 2 * 5] == ["Uid:", *[str(USER)] * 4, "Gid:", *[str(USER)] * 4]
    assert found[10:] == ["Groups:", str(USER), "CapPrm:", "0" * 16, "CapEff:", "0" * 16]


def test_a_command_of_root_is_root_altogether_and_takes_nothing_of_the_caller(forked, tmp_path):
    words = ["sh", "-c", "grep -E '^(Uid|Gid|Groups)' /proc/self/status; pwd; env; ls /proc/self/fd | wc -l"]

    def look():
        os.chdir(tmp_path)
        act_as_caller()
        os.environ["LD_PRELOAD"] = os.environ["PYTHONPATH"] = os.environ["PATH"] = "/hostile"
        return run(RootCommand(words), capture_output=True).stdout.decode().splitlines()

    uid, gid, groups, folder, *variables, _ = forked(look, act=False)
    assert (uid.split()[1:], gid.split()[1:], groups.split()[1:]) == (["0"] * 4, ["0"] * 4, [])
    assert folder == "/"
    assert {line.partition("=")[0] for line in variables} <= {
        "LANG", "LC_ALL", "TZ", "PATH", "HOME", "USER", "LOGNAME", "PWD", "OLDPWD", "SHLVL", "_"
    }  # fmt: skip
    assert not any("hostile" in line for line in variables)


def test_the_process_cannot_be_attached_to_and_leaves_no_core(forked):
    assert forked(lambda: ctypes.CDLL(None).prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0)) == 0


def test_the_umask_stays_and_root_own_folders_are_forgotten(forked):
    old = os.umask(0o027)
    try:
        assert forked(lambda: os.umask(0), {**SUDO, "XDG_CACHE_HOME": "/root/.cache"}) == 0o027
        assert forked(lambda: "XDG_CACHE_HOME" in os.environ, {**SUDO, "XDG_CACHE_HOME": "/root/.cache"}) is False
    finally:
        os.umask(old)


def test_modules_are_not_taken_from_where_the_caller_can_write(forked, tmp_path):
    mine, roots = tmp_path / "mine", tmp_path / "roots"
    mine.mkdir()
    roots.mkdir()
    os.chown(mine, USER, USER)
    for parent in (tmp_path, *tmp_path.parents):
        if parent.name.startswith(("pytest-", "popen-", "test_")):
            parent.chmod(parent.stat().st_mode | 0o011)

    def look():
        return [entry for entry in sys.path if entry in ("", str(mine), str(mine / "none"), str(roots))]

    def hostile():
        os.chdir(mine)
        sys.path[:0] = ["", str(mine), str(mine / "none"), str(roots)]
        act_as_caller()
        return look()

    assert forked(hostile, act=False) == [str(roots)]


def test_the_kernels_files_that_it_shows_to_root_alone_are_read(forked):
    paths = (*Path("/sys/kernel").glob("*/*"), *Path("/sys/kernel/slab").glob("*/objects"))
    path = next((path for path in paths if _root_alone(path)), None)
    if path is None:
        pytest.skip("everybody may read every file below /sys/kernel here")
    name = str(path.relative_to("/"))

    def look():
        try:
            path.read_text()
        except PermissionError:
            return [Sysfs().read(name) is not None, Sysfs().writable(name)]
        return "readable without root"

    assert forked(look)[0] is True


def _root_alone(path):
    try:
        return path.is_file() and path.stat().st_mode & 0o777 == 0o400 and path.read_text() is not None
    except (OSError, UnicodeDecodeError):
        return False


def test_below_another_root_there_is_no_root_to_help(forked, tmp_path):
    for parent in (tmp_path, *tmp_path.parents):
        if parent.name.startswith(("pytest-", "popen-", "test_")):
            parent.chmod(parent.stat().st_mode | 0o055)
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys/secret").write_text("precious")
    (tmp_path / "sys/secret").chmod(0o600)
    assert forked(lambda: Sysfs(tmp_path).read("sys/secret"))[0] == "PermissionError"


def test_a_memory_limit_is_made_in_a_group_of_root(forked, tmp_path):
    for parent in (tmp_path, *tmp_path.parents):
        if parent.name.startswith(("pytest-", "popen-", "test_")):
            parent.chmod(parent.stat().st_mode | 0o055)
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "cgroup.subtree_control").write_text("memory\n")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")

    def limit():
        made = make_limit(1 << 30, root=tmp_path)
        made.admit(4711)
        (folder,) = group.glob("edgetune-*")
        return [made.enforced, folder.stat().st_uid, (folder / "memory.max").read_text(), os.access(folder, os.W_OK)]

    assert forked(limit) == ["cgroup-v2", 0, str(1 << 30), False]
