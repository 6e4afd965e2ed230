"""Identity of edgetune under sudo, pkexec and doas: the calling user's, with root for single steps.

sudo sets ``SUDO_UID`` and ``SUDO_GID`` (sudo(8)), pkexec ``PKEXEC_UID`` (pkexec(1)), doas ``DOAS_USER`` (doas(1)).
Setting clocks needs root; running a network and writing its results do not.

    root --> act_as_caller() --> real and effective user: the caller; saved user: root
                                   |
                                   +-- every file that edgetune opens, reads, creates or renames: judged as the caller's
                                   +-- every program that it starts: the caller, also saved (execve(2)): no way back
                                   +-- as_root(step): root for one step, in a thread of its own
                                   `-- give_root_up(): for commands that need no such step

A model is foreign code. It runs as the caller and may plant links in the caller's folders, so that no file whose
name comes from the user or from a model is ever opened as root: the kernel decides as it does for the caller. Steps of
root use only fixed paths of the system. Each runs in a new thread: the raw system call changes the identity of the
thread that makes it (glibc's ``seteuid`` would change all threads), no other thread is root meanwhile, the thread ends
with the step, and no signal handler of Python runs in it.

The caller's processes cannot attach to this one, read its memory or take its descriptors: ptrace(2) needs the same
real, effective and saved user, and the process is not dumpable. They may signal it; the guardian then puts the board
back.

Root in a container and a login of root are left unchanged.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from edgetune.errors import DeviceError

_NO_GROUP = 65534
"""Group of a user without account and known group: ``nogroup``, the overflow group of Linux."""

CALLER_VARIABLES = ("SUDO_UID", "SUDO_GID", "SUDO_USER", "SUDO_COMMAND", "PKEXEC_UID", "DOAS_USER")
"""Variables that name the calling user; a process that has become this user drops them."""


class Invoker(NamedTuple):
    """The calling user.

    Args:
        uid, gid: User and group id.
        groups: All group ids.
        name: Login name; ``None`` for an id without account.
        home: Home folder.
        through: The program that gave root: ``sudo``, ``pkexec`` or ``doas``.
    """

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str | None
    home: str
    through: str = "sudo"

    @property
    def label(self) -> str:
        """The login name, or the id of a user without account."""
        return self.name or f"user {self.uid}"

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a process of this user: the user's home, and none of root's XDG folders."""
        kept = {
            name: value
            for name, value in environment.items()
            if not name.startswith("XDG_") and name not in CALLER_VARIABLES
        }
        named = {"USER": self.name, "LOGNAME": self.name} if self.name is not None else {}
        return {**kept, **named, "HOME": self.home}


def invoking_user() -> Invoker | None:
    """Return the user who called sudo, pkexec or doas; ``None`` when root called, or this process is not root.

    Raises:
        DeviceError: ``DOAS_USER`` has no account.
    """
    if os.geteuid() != 0:
        return None
    for through, variable in (("sudo", "SUDO_UID"), ("pkexec", "PKEXEC_UID")):
        uid = _number(variable)
        if uid is not None:
            return _invoker(uid, _number("SUDO_GID") if through == "sudo" else None, through)
    name = os.environ.get("DOAS_USER", "")
    if not name:
        return None
    import pwd  # here and below: every command loads this module, and few need these

    try:
        return _invoker(pwd.getpwnam(name).pw_uid, None, "doas")
    except KeyError:
        raise DeviceError(
            f"DOAS_USER is {name!r}, and there is no such account", "run doas from an account of this machine"
        ) from None


def _number(variable: str) -> int | None:
    """Return the id in a variable; ``None`` where it is not set or not a valid id."""
    text = os.environ.get(variable, "")
    return int(text) if text.isascii() and text.isdecimal() else None


def _invoker(uid: int, gid: int | None, through: str) -> Invoker | None:
    import pwd

    if uid == 0:
        return None
    try:
        account = pwd.getpwuid(uid)
    except KeyError:
        gid = _NO_GROUP if gid is None else gid
        return Invoker(uid, gid, (gid,), None, "/", through)
    gid = account.pw_gid if gid is None else gid
    groups = tuple(os.getgrouplist(account.pw_name, gid))
    return Invoker(uid, gid, groups, account.pw_name, account.pw_dir, through)


def runs_as_root() -> bool:
    """Whether networks run as root here, e.g. in a container or a login of root."""
    return os.geteuid() == 0 and invoking_user() is None


T = TypeVar("T")

_PR_SET_DUMPABLE = 4  # <linux/prctl.h>
_SETRESUID_SETRESGID = {"x86_64": (117, 119), "aarch64": (147, 149), "riscv64": (147, 149)}  # <asm/unistd.h>
_SETRESUID_SETRESGID_32_BIT = (208, 210)  # setresuid32 and setresgid32 of x86 and ARM
_UNCHANGED = -1
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_caller: Invoker | None = None


class RootCommand(list[str]):
    """A command line that ``start`` runs as root, through this process's saved root."""


def act_as_caller() -> None:
    """Take the identity of the user who called sudo, pkexec or doas permanently; do nothing without such a user.

    Must be called first, before threads start. The umask is unchanged.

    Raises:
        DeviceError: the user may not read this installation, or the kernel refuses the change.
    """
    global _caller  # noqa: PLW0603 -- the identity is the process's own
    user = invoking_user()
    if user is None:
        return
    import ctypes

    try:
        os.setgroups(user.groups)
        if sys.platform == "linux":
            os.setresgid(user.gid, user.gid, user.gid)
            os.setresuid(user.uid, user.uid, 0)
            _require_taken(user)
            _caller = user
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        else:  # no other system has a setting that needs root
            os.setgid(user.gid)
            os.setuid(user.uid)
    except OSError as error:
        raise DeviceError(
            f"cannot become {user.label}, who called {user.through}: {error.strerror}",
            f"run edgetune without {user.through}",
        ) from None
    for name in (*(name for name in os.environ if name.startswith("XDG_")), *CALLER_VARIABLES):
        os.environ.pop(name, None)
    os.environ.update(user.environment({}))
    _require_readable(user)
    _forget_foreign_modules()


def _require_taken(user: Invoker) -> None:
    """Check that the process has the user's identity: the kernel treats the id -1 as no change."""
    if os.getresuid() != (user.uid, user.uid, 0) or os.getresgid() != (user.gid, user.gid, user.gid):
        raise OSError(0, "the kernel did not change the identity")


def _require_readable(user: Invoker) -> None:
    package = Path(__file__).parents[1]
    unreadable = [str(path) for path in (package, Path(sys.executable)) if not os.access(path, os.R_OK | os.X_OK)]
    if unreadable:
        raise DeviceError(
            f"{user.label}, who called {user.through}, may not read {unreadable[0]}",
            "edgetune does its work as that user: install it where that user may read it, e.g. below /opt",
        )


def _forget_foreign_modules() -> None:
    """Remove folders that the user can write from the module path, because this process can still become root.

    An installation that the user can write is kept: there the user, and any model, can change edgetune itself anyway.
    """
    package = Path(__file__).parents[1]
    if not _writable(package):
        sys.path[:] = [entry for entry in sys.path if not _writable(Path(entry or "."))]


def _writable(path: Path) -> bool:
    """Whether the user may write a folder or file, or create a missing one."""
    path = Path(os.path.abspath(path))
    return os.access(next(each for each in (path, *path.parents) if os.path.exists(each)), os.W_OK)


def acting_as() -> Invoker | None:
    """Return the user whose identity this process has taken; ``None`` if none."""
    return _caller


def give_root_up() -> None:
    """Drop the saved root for a command that needs no step of root; do nothing without a caller."""
    if _root_is_kept():
        os.setresuid(-1, -1, os.getuid())


def holds_root() -> bool:
    """Whether this process is root, or can run steps as root by ``as_root``."""
    return os.geteuid() == 0 or _root_is_kept()


def _root_is_kept() -> bool:
    return _caller is not None and os.getresuid()[2] == 0


def as_root(step: Callable[[], T]) -> T:
    """Run a step and return its result: as root if this process acts for a caller of sudo, else unchanged.

    The step must not use names from the user or a model, and must not start threads.

    Raises:
        OSError: the kernel denies root. Errors of the step pass through.
    """
    if not _root_is_kept():
        return step()
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            _raise_this_thread()
            results.append(step())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="edgetune-root")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]


def start(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a program: a ``RootCommand`` fully as root, in ``/``; any other with the identity of this process.

    Args:
        command: Its command line.
        options: Options of ``subprocess.Popen``.

    Raises:
        OSError: the program cannot be started.
    """
    return _through_root(subprocess.Popen, command, options)


def run(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a program as ``start`` does and wait for its end; options and errors as of ``subprocess.run``."""
    return _through_root(subprocess.run, command, options)


def _through_root(call: Callable[..., T], command: Sequence[str], options: Mapping[str, Any]) -> T:
    if not (_root_is_kept() and isinstance(command, RootCommand)):
        return call(command, **options)
    given = {"cwd": "/", "env": root_environment(), **options}
    return as_root(lambda: call(command, user=0, group=0, extra_groups=(), **given))


def root_environment() -> dict[str, str]:
    """Return the environment of programs started as root: of the caller's variables only the language."""
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ") if name in os.environ}
    return {**kept, "PATH": _PATH, "HOME": "/root", "USER": "root", "LOGNAME": "root"}


def _raise_this_thread() -> None:
    """Make the calling thread root through its saved user.

    Raises:
        OSError: the kernel refuses, or the system call numbers of this machine are unknown.
    """
    import ctypes

    machine = platform.machine()
    calls = _SETRESUID_SETRESGID.get(machine) if sys.maxsize > 1 << 32 else _SETRESUID_SETRESGID_32_BIT
    if calls is None:
        raise PermissionError(1, f"edgetune does not know how a thread becomes root on {machine}")
    library = ctypes.CDLL(None, use_errno=True)
    for call in calls:  # the user first: only root may change the group
        numbers = [ctypes.c_long(number) for number in (call, _UNCHANGED, 0, _UNCHANGED)]
        if library.syscall(*numbers) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
