"""The user who started edgetune as root through sudo, pkexec or doas.

sudo sets ``SUDO_UID`` and ``SUDO_GID`` (sudo(8)), pkexec ``PKEXEC_UID`` (pkexec(1)), doas ``DOAS_USER`` (doas(1)).
Setting clocks needs root; running a network and writing its results do not, see ``privilege``.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass

from edgetune.errors import DeviceError

_NO_GROUP = 65534
"""Group of a user without account whose group nothing tells: ``nogroup``, the overflow group of Linux."""

CALLER_VARIABLES = ("SUDO_UID", "SUDO_GID", "SUDO_USER", "SUDO_COMMAND", "PKEXEC_UID", "DOAS_USER")
"""Variables that name the calling user; a process that has become this user drops them."""


@dataclass(frozen=True, slots=True)
class Invoker:
    """The user who called.

    Args:
        uid, gid: Of the user.
        groups: All groups of the user.
        name: Login name; ``None`` for a number that no account has.
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
        """The login name, or the number of a user without account."""
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
    try:
        return _invoker(pwd.getpwnam(name).pw_uid, None, "doas")
    except KeyError:
        raise DeviceError(
            f"DOAS_USER is {name!r}, and there is no such account", "run doas from an account of this machine"
        ) from None


def _number(variable: str) -> int | None:
    """Return the number in a variable; ``None`` where it is not set, or no user or group has such a number."""
    text = os.environ.get(variable, "")
    return int(text) if text.isascii() and text.isdecimal() else None


def _invoker(uid: int, gid: int | None, through: str) -> Invoker | None:
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
    """Whether networks run as root here: in a container, say, or in a login of root."""
    return os.geteuid() == 0 and invoking_user() is None
