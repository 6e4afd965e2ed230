"""Identity of edgetune under sudo, pkexec and doas: the calling user's, for good.

sudo sets ``SUDO_UID`` and ``SUDO_GID`` (sudo(8)), pkexec ``PKEXEC_UID`` (pkexec(1)), doas ``DOAS_USER`` (doas(1)).
Setting clocks needs root; running a network and writing its results do not.

    root --> act_as_caller() --> the caller, real, effective and saved: no way back
                 |                  |  ask_root: step, arguments
                 `-- python -I -m edgetune.devices.guardian.steps, as root: starts guardians, steps of a fixed list

A model is foreign code, and so is a file that a library reads: this process can do nothing that the caller cannot, but
for these steps, each of which checks what it is asked. Root in a container and a login of root are left unchanged.
"""

from __future__ import annotations

import errno
import functools
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

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


P = ParamSpec("P")
T = TypeVar("T")

_STEPS = "edgetune.devices.guardian.steps"
_LONGEST_REPLY_BYTES = 1 << 18
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_caller: Invoker | None = None
_helper: socket.socket | None = None
_helper_process: subprocess.Popen[bytes] | None = None
_turn, _numbers = threading.Lock(), itertools.count()
served_user: int | None = None
"""In the process of root, the user for whom it works."""


def act_as_caller() -> None:
    """Become the user who called sudo, pkexec or doas, having started a process of root for a few steps.

    Must be called first, before threads start; nothing changes without such a user. The umask is unchanged.

    Raises:
        DeviceError: the user may not read this installation, or the kernel refuses the change.
    """
    global _caller, _helper, _helper_process  # noqa: PLW0603 -- the identity is the process's own
    user = invoking_user()
    if user is None:
        return
    try:
        if sys.platform == "linux":  # no other system has a setting that needs root
            _helper, _helper_process = _start_helper(user)
        os.setgroups(user.groups)
        os.setresgid(user.gid, user.gid, user.gid)
        os.setresuid(user.uid, user.uid, user.uid)
        if (os.getresuid(), os.getresgid()) != ((user.uid,) * 3, (user.gid,) * 3):  # the id -1 is no change
            raise OSError(0, "the kernel did not change the identity")
    except OSError as error:
        raise DeviceError(
            f"cannot become {user.label}, who called {user.through}: {error.strerror}",
            f"run edgetune without {user.through}",
        ) from None
    _caller = user
    for name in (*(name for name in os.environ if name.startswith("XDG_")), *CALLER_VARIABLES):
        os.environ.pop(name, None)
    os.environ.update(user.environment({}))
    _require_readable(user)


def _start_helper(user: Invoker) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start the process of root; it ends when the other end of its socket is closed, however this process ends."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ") if name in os.environ}
    environment = {**kept, "PATH": _PATH, "HOME": "/root", "USER": "root", "LOGNAME": "root"}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-m", _STEPS, str(theirs.fileno()), str(user.uid)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", env=environment,
            pass_fds=[theirs.fileno()], start_new_session=True,
        )  # fmt: skip
    return ours, process


def _require_readable(user: Invoker) -> None:
    package = Path(__file__).parents[1]
    unreadable = [str(path) for path in (package, Path(sys.executable)) if not os.access(path, os.R_OK | os.X_OK)]
    if unreadable:
        raise DeviceError(
            f"{user.label}, who called {user.through}, may not read {unreadable[0]}",
            "edgetune does its work as that user: install it where that user may read it, e.g. below /opt",
        )


def acting_as() -> Invoker | None:
    """Return the user whose identity this process has taken; ``None`` if none."""
    return _caller


def give_root_up() -> None:
    """End the process of root, for a command that needs no step of it."""
    global _helper  # noqa: PLW0603 -- as above
    if _helper is not None:
        _helper.close()
        _helper = None


def has_helper() -> bool:
    """Whether a process of root works for this one."""
    return _helper is not None


def holds_root() -> bool:
    """Whether this process is root, or a process of root works for it."""
    return os.geteuid() == 0 or has_helper()


def by_root(step: Callable[P, T]) -> Callable[P, T]:
    """Have the process of root carry out a step where there is one; elsewhere the step runs in this process.

    Args:
        step: One of the list in ``devices.guardian.steps``: arguments and result are plain JSON, errors ``OSError``.
    """

    @functools.wraps(step)
    def carry_out(*arguments: P.args, **named: P.kwargs) -> T:
        if _helper is None:
            return step(*arguments, **named)
        return cast(T, ask_root(step.__name__, *arguments))

    return carry_out


def ask_root(step: str, *arguments: object, descriptors: Sequence[int] = ()) -> Any:
    """Ask the process of root for a step and return its result.

    Raises:
        OSError: the step was refused or failed, or the process has ended.
    """
    assert _helper is not None
    with _turn:
        number = next(_numbers)
        request = json.dumps([number, step, arguments]).encode()
        try:
            socket.send_fds(_helper, [request], descriptors)
            while data := _helper.recv(_LONGEST_REPLY_BYTES):
                if (reply := json.loads(data))["number"] == number:  # else of a wait that a signal interrupted
                    break
            else:
                raise BrokenPipeError
        except (BrokenPipeError, ConnectionError):
            why = "its process has ended; root sees edgetune in a virtual environment, not in a --user installation"
            raise OSError(errno.EPERM, why) from None
    if "errno" in reply:
        raise OSError(reply["errno"], reply["why"])
    return reply["value"]
