"""Exclusive use of a device: two locks, which the kernel releases however their holder ends.

    a measuring process          /run/edgetune/DEVICE.lock       advisory: separates two measurements
    a guardian                   /var/lib/edgetune/DEVICE.lock   protects the board; for root only

Every guardian and every edgetune with root makes the shared lock, in a folder of root. Other users open the file for
reading, which suffices to lock it; they cannot write, replace or link it. Where it has not been made since boot, each
user has a private lock in ``/run/user/UID`` or the user's temporary folder, and two users do not exclude each other.

Any user may hold the shared lock forever, so it only guards measurements: ``hold_to_restore`` continues without it
unless the holder is a process of the same user. Only guardians of root can open the guardian's lock; a new guardian
waits for it while an earlier one restores the board. Messages name the holder that the kernel reports, see
``processes.file_lock``.
"""

import errno
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from edgetune.errors import DeviceError
from edgetune.processes.file_lock import Holder, holder_of, try_lock
from edgetune.processes.privilege import by_root, holds_root
from edgetune.processes.user_folders import make_private, temporary_folder, user_folder

_SYSTEM = Path("/")
_RUN, _FOLDER = "run", "edgetune"
_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK
_STRANGE = re.compile(r"[^A-Za-z0-9]")
_LONGEST_NAME = 64
_SHARED = re.compile(r"jetson|nvidia:[0-9]{1,3}|host")
"""Devices with a guardian, whose shared lock root makes."""
_POLL_S = 0.05


@contextmanager
def hold(device: str, root: Path = _SYSTEM) -> Iterator[None]:
    """Hold a device's lock while the context is open.

    Args:
        device: Device name, e.g. ``jetson``.
        root: Root of the file system.

    Raises:
        DeviceError: another edgetune holds the lock, or the lock cannot be used.
    """
    descriptor = _open(device, root)
    try:
        if not try_lock(descriptor):
            raise _in_use(holder_of(descriptor))
        yield
    finally:
        os.close(descriptor)


@contextmanager
def hold_to_restore(device: str, root: Path = _SYSTEM) -> Iterator[str]:
    """Hold a device's lock if possible; another user's lock does not prevent a restore.

    Yields:
        Reason why the lock is not held; empty where it is held.

    Raises:
        DeviceError: another process of this user holds the lock.
    """
    try:
        descriptor = _open(device, root)
    except DeviceError as error:
        yield error.message
        return
    try:
        if try_lock(descriptor):
            yield ""
            return
        holder = holder_of(descriptor)
        if holder is not None and holder.is_ours:
            raise _in_use(holder)
        yield _in_use(holder).message
    finally:
        os.close(descriptor)


@contextmanager
def hold_journal(path: Path, patience_s: float, stopped: Callable[[], bool]) -> Iterator[bool]:
    """Hold the lock of a device's guardians while the context is open.

    Args:
        path: The lock's file, in a private folder.
        patience_s: How long to wait for another guardian to restore the board, s.
        stopped: Returns true to end the wait.

    Yields:
        Whether the lock is held; false if ``stopped`` ended the wait.

    Raises:
        DeviceError: the other guardian has not finished in time, or the lock cannot be used.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
    except OSError as error:
        raise _unusable(path, error.strerror or str(error)) from None
    try:
        give_up_s = time.monotonic() + patience_s
        while not (taken := try_lock(descriptor)) and not stopped():
            if time.monotonic() > give_up_s:
                holder = holder_of(descriptor)
                who = "another guardian" if holder is None else f"another guardian, process {holder.pid},"
                hint = "wait for it; one that hangs in a driver ends with a restart of the board"
                if holder is not None and holder.seen:
                    hint = f"wait for it; as root, kill {holder.pid} has it put the board back and end"
                raise DeviceError(f"{who} still has the board", hint)
            time.sleep(_POLL_S)
        yield taken
    finally:
        os.close(descriptor)


def share(device: str, root: Path = _SYSTEM) -> None:
    """Make the shared lock file unless it exists; root calls this.

    Raises:
        OSError: the file cannot be made.
    """
    folder = root / _RUN / _FOLDER
    with suppress(FileExistsError):
        folder.mkdir()
        folder.chmod(0o755)  # whatever the umask
    with suppress(FileExistsError):
        descriptor = os.open(folder / _file_name(device), os.O_RDONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o644)
        os.fchmod(descriptor, 0o644)
        os.close(descriptor)


@by_root
def share_system(device: str) -> None:
    """Make the shared lock file of a device of this machine; errors as of ``share``."""
    if not _SHARED.fullmatch(device):
        raise PermissionError(errno.EPERM, "no device has such a name")
    share(device)


def _open(device: str, root: Path) -> int:
    """Open the shared lock, else this user's private lock.

    Raises:
        DeviceError: neither lock can be used.
    """
    with suppress(OSError):
        if root != _SYSTEM:
            share(device, root)
        elif holds_root() and _SHARED.fullmatch(device):
            share_system(device)
    with suppress(OSError):
        return os.open(root / _RUN / _FOLDER / _file_name(device), os.O_RDONLY | _FLAGS)
    return _open_private(device, root)


def _open_private(device: str, root: Path) -> int:
    """Open this user's private lock.

    Raises:
        DeviceError: there is no folder for the lock.
    """
    name = _file_name(device)
    if root != _SYSTEM:
        name = f"{hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:16]}-{name}"
    tried = ""
    for folder in (user_folder("runtime"), temporary_folder()):
        try:
            return os.open(make_private(folder) / name, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
        except OSError as error:
            tried = f"{folder / name}: {error.strerror or error}"
    raise _unusable(_SYSTEM / _RUN / _FOLDER / _file_name(device), tried)


def _file_name(device: str) -> str:
    """Return the file name of a device's lock; no device name can make it leave the folder."""
    return f"{_STRANGE.sub('-', device)[:_LONGEST_NAME]}.lock"


def _unusable(path: Path, why: str) -> DeviceError:
    hint = "check who owns that file, or set TMPDIR to another folder"
    return DeviceError(f"the lock {path} cannot be used: {why}", hint)


def _in_use(holder: Holder | None) -> DeviceError:
    if holder is None:
        return DeviceError("the board is in use by another edgetune", "wait for it to end")
    hint = f"wait for process {holder.pid} to end, or ask {holder.user} to end it"
    if holder.ending is not None:
        hint = f"wait for it, or end it: {holder.ending}"
    return DeviceError(f"the board is in use by another edgetune: {holder.description}", hint)


class Exclusive:
    """A re-entrant lock on a device, held from the first entry until the last exit within a process.

    Args:
        device: Device name, e.g. ``jetson``.
        root: Root of the file system.
    """

    def __init__(self, device: str, root: Path = Path("/")) -> None:
        self._device = device
        self._root = root
        self._stack = ExitStack()
        self._depth = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Hold the device's lock for this process while the context is open.

        Raises:
            DeviceError: another edgetune holds the lock; the message names the process and its start.
        """
        if self._depth == 0:
            self._stack.enter_context(hold(self._device, self._root))
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._stack.close()
