"""Identity of edgetune under sudo, pkexec and doas: the calling user's, for good.

sudo sets ``SUDO_UID`` (sudo(8)), pkexec ``PKEXEC_UID`` (pkexec(1)), doas ``DOAS_USER`` (doas(1)); each of them demands
that the caller has an account. Setting clocks needs root; running a network and writing its results do not.

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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar, cast

from edgetune.errors import DeviceError

if TYPE_CHECKING:
    import pwd


class Caller(NamedTuple):
    """The user who called, and the program that gave root: ``sudo``, ``pkexec`` or ``doas``."""

    through: str
    account: pwd.struct_passwd


_TOLD_BY = {"SUDO_UID": "sudo", "PKEXEC_UID": "pkexec", "DOAS_USER": "doas"}


def find_caller() -> Caller | None:
    """Return the user who called sudo, pkexec or doas; ``None`` when root called, or this process is not root.

    Raises:
        DeviceError: a variable names no account.
    """
    variable = next((name for name in _TOLD_BY if os.environ.get(name)), None)
    if variable is None or os.geteuid() != 0:
        return None
    import pwd  # every command loads this module, and few need it

    who = os.environ[variable]
    try:
        account = pwd.getpwuid(int(who)) if who.isdecimal() else pwd.getpwnam(who)
    except (KeyError, OverflowError):
        message = f"{variable} is {who!r}, and there is no such account"
        raise DeviceError(message, "call edgetune from an account of this machine") from None
    return Caller(_TOLD_BY[variable], account) if account.pw_uid else None


P = ParamSpec("P")
T = TypeVar("T")

_STEPS = "edgetune.devices.guardian.steps"
_LONGEST_REPLY_BYTES = 1 << 18
_NEEDED = (str(Path(__file__).parents[1]), sys.executable)
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

acting_as: Caller | None = None
"""The user whose identity this process has taken."""
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
    global acting_as, _helper, _helper_process  # noqa: PLW0603 -- the identity is the process's own
    caller = find_caller()
    if caller is None:
        return
    through, (name, _, uid, gid, _, home, _) = caller
    try:
        if sys.platform == "linux":  # no other system has a setting that needs root
            _helper, _helper_process = _start_helper(uid)
        os.setgroups(os.getgrouplist(name, gid))
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        message = f"cannot become {name}, who called {through}: {error.strerror}"
        raise DeviceError(message, f"run edgetune without {through}") from None
    acting_as = caller
    for variable in [each for each in os.environ if each.startswith(("XDG_", "SUDO_", "PKEXEC_", "DOAS_"))]:
        del os.environ[variable]
    os.environ.update(USER=name, LOGNAME=name, HOME=home)
    for path in _NEEDED:
        if not os.access(path, os.R_OK | os.X_OK):
            hint = "edgetune does its work as that user: install it where that user may read it, e.g. below /opt"
            raise DeviceError(f"{name}, who called {through}, may not read {path}", hint)


def _start_helper(uid: int) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Start the process of root; it ends when the other end of its socket is closed, however this process ends."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ") if name in os.environ}
    environment = {**kept, "PATH": _PATH, "HOME": "/root", "USER": "root", "LOGNAME": "root"}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-I", "-m", _STEPS, str(theirs.fileno()), str(uid)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", env=environment,
            pass_fds=[theirs.fileno()], start_new_session=True,
        )  # fmt: skip
    return ours, process


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
    """Whether this process is root, or one of root works for it."""
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
