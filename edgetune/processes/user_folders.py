"""The folders of a user's files: cache, configuration, state and runtime."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from edgetune.errors import InputError
from edgetune.processes.private_folder import make_private, temporary_folder

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
        if make_private(folder):
            return folder.joinpath(kind, *parts)
        reason = "is not this user's alone"
    except OSError as error:
        reason = f"cannot be made: {error.strerror or error}"
    raise InputError(f"this user has no home folder, and {folder} {reason}", f"set {variable} or TMPDIR to a folder")


def prepared_folder() -> Path:
    """Return the default folder of prepared networks."""
    return user_folder("cache", "prepared")
