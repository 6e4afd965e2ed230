"""The folders of a user's files: cache, configuration, state and runtime."""

import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import Literal

from edgetune.errors import InputError

_BELOW_HOME = {"cache": ".cache", "config": ".config", "state": ".local/state"}


def user_folder(kind: Literal["cache", "config", "state", "runtime"], *parts: str) -> Path:
    """Return the folder of edgetune's files of one kind, or one below it, which may not exist.

    See the XDG Base Directory Specification. The runtime folder is the one that pam_systemd makes, whatever the
    environment says: locks in it are for all processes of the user. A user without a home folder, e.g. of a container
    with ``--user 12345``, has the others in ``temporary_folder``, which is made.

    Raises:
        InputError: there is no home folder, and no temporary folder of this user alone.
    """
    if kind == "runtime":
        return Path(f"/run/user/{os.getuid()}", "edgetune", *parts)
    variable = f"XDG_{kind.upper()}_HOME"
    named = os.environ.get(variable, "")
    if os.path.isabs(named):
        return Path(named, "edgetune", *parts)
    try:
        return Path.home().joinpath(_BELOW_HOME[kind], "edgetune", *parts)
    except RuntimeError:  # neither HOME nor an entry in the list of users
        folder = temporary_folder()
    try:
        return make_private(folder).joinpath(kind, *parts)
    except OSError as error:
        message = f"this user has no home folder, and {folder} cannot be used: {error.strerror or error}"
        raise InputError(message, f"set {variable} or TMPDIR to a folder") from None


def temporary_folder() -> Path:
    """Return the path of this user's folder for temporary files; ``make_private`` makes it."""
    try:
        return Path(tempfile.gettempdir()) / f"edgetune-{os.getuid()}"
    except OSError:
        return Path(os.devnull, "edgetune")  # nothing can be created there


def make_private(folder: Path) -> Path:
    """Make a folder that only this user can enter, and return it.

    Raises:
        OSError: the folder cannot be made, or something of another user exists there.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise PermissionError(errno.EACCES, "it is not this user's alone")
    return folder


def prepared_folder() -> Path:
    """Return the default folder of prepared networks."""
    return user_folder("cache", "prepared")
