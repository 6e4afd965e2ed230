"""Who runs the network when edgetune runs as root: the user who called sudo, for a model is somebody's program.

Setting clocks needs root; running a network does not, and a training file is any Python at all. Under sudo the child
process therefore becomes the user again, with that user's groups: on a Jetson, ``video`` and ``render`` open the GPU.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Invoker:
    """A user to become.

    Args:
        uid, gid: Of the user.
        groups: All groups of the user.
        name: Login name; ``None`` for a number that no account has.
        home: Home folder.
    """

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str | None
    home: str

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a process of this user: their home, and none of root's XDG folders."""
        kept = {name: value for name, value in environment.items() if not name.startswith("XDG_")}
        named = {"USER": self.name, "LOGNAME": self.name} if self.name is not None else {}
        return {**kept, **named, "HOME": self.home}


def invoking_user() -> Invoker | None:
    """Return who called sudo (``SUDO_UID``, ``SUDO_GID``; see sudo(8)), or ``None`` when that was root or nobody."""
    if os.geteuid() != 0:
        return None
    try:
        uid, gid = int(os.environ["SUDO_UID"]), int(os.environ["SUDO_GID"])
    except (KeyError, ValueError):
        return None
    if uid <= 0 or gid < 0:
        return None
    try:
        account = pwd.getpwuid(uid)
    except KeyError:
        return Invoker(uid, gid, (gid,), None, "/")
    return Invoker(uid, gid, tuple(os.getgrouplist(account.pw_name, gid)), account.pw_name, account.pw_dir)


def runs_as_root() -> bool:
    """Whether networks run as root here: in a container, say, or in a login of root."""
    return os.geteuid() == 0 and invoking_user() is None
