"""Edgetune started by root for a calling user, as sudo does it: in a process and a view of the file system of its own.

The interpreter of the tests may lie in a folder that only root can enter. Then the process gets a mount namespace in
which that folder can be entered, and nothing else of it is there than what the interpreter needs.
"""

import os
import pwd
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
USER = pwd.getpwnam("nobody").pw_uid
"""A user with an account and a group of the same number."""

AS_USER = {"SUDO_UID": str(USER), "SUDO_GID": str(USER)}

_SHOW = """
hidden=$1; shift
while [ "$1" != -- ]; do
    mkdir -p "$hidden/$3"; mount --bind "$1/$2" "$hidden/$3"
    mount -t tmpfs -o mode=755 tmpfs "$1"; mkdir "$1/$2"; mount --bind "$hidden/$3" "$1/$2"
    shift 3
done
shift
"""


def needed_paths() -> list[Path]:
    """Return what an interpreter like this one reads."""
    found = [sys.executable, sys.prefix, sys.base_prefix, REPOSITORY, *(entry for entry in sys.path if entry)]
    paths = [Path(entry) for entry in found if Path(entry).exists()]
    return [*paths, *(path.resolve() for path in paths)]


def closed_folders() -> dict[Path, str]:
    """Return the folders on the way that only their owner can enter, each with the name that is needed in it."""
    closed = {}
    for path in needed_paths():
        for folder in reversed(path.parents):
            if not folder.stat().st_mode & 0o001:
                closed[folder] = path.relative_to(folder).parts[0]
                break
    return closed


def started_by_root(command: Sequence[str], private: Path, first: str = "") -> list[str]:
    """Return the command line that runs ``command`` in a mount namespace of its own.

    Args:
        command: What to run there.
        private: A folder for what is hidden meanwhile.
        first: Lines of a shell to run there first.
    """
    words = [word for number, (folder, name) in enumerate(closed_folders().items()) for word in (folder, name, number)]
    return [
        "unshare", "--mount", "--propagation", "private", "sh", "-ec", f'{_SHOW}{first}\nexec "$@"', "sh",
        str(private), *map(str, words), "--", *command,
    ]  # fmt: skip


def run_by_root(
    command: Sequence[str],
    world: Path,
    *,
    environment: Mapping[str, str] = AS_USER,
    first: str = "",
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command as root with the variables by which sudo names the caller."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SUDO_", "XDG_", "PYTHON"))}
    return subprocess.run(
        started_by_root(command, world / "hidden", first), cwd=cwd or world / "user", text=True, capture_output=True,
        env={**clean, "PYTHONPATH": str(REPOSITORY), **environment}, timeout=120, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def make_world(folder: Path) -> Path:
    """Make a folder of the user, ``user``, and one of root with a secret, ``root/secret``; skip where that is not so.

    Args:
        folder: A new folder that everybody can enter.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can start edgetune for another user")
    folder.chmod(0o755)
    for name in ("user", "root", "hidden"):
        (folder / name).mkdir()
    os.chown(folder / "user", USER, USER)
    (folder / "root/secret").write_text("precious")
    (folder / "root/secret").chmod(0o600)
    started = run_by_root(
        ["setpriv", "--reuid", str(USER), "--clear-groups", sys.executable, "-c", "import edgetune"], folder
    )
    if started.returncode != 0:
        pytest.skip(f"no user but root can start the interpreter of the tests here: {started.stderr.strip()[-200:]}")
    return folder
