"""Read and write the kernel's small files of single values, with short reasons for errors.

Under sudo edgetune is the calling user. Sensors below ``/sys`` that the kernel denies to this user (energy counters,
debugfs) are read by a process of root, see ``processes.privilege``.
"""

import errno
import glob
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

from edgetune.processes.privilege import by_root, has_helper

_KERNEL = "sys/"
_SENSORS = re.compile(
    r"sys/class/powercap/[^/]+/(energy_uj|max_energy_range_uj)"
    r"|sys/kernel/debug/(bpmp/debug/clk/emc|clk/override\.emc|tegra_bwmgr|cactmon)(/[^/]+)?"
)
"""What the process of root reads for its caller: energy counters, and the clock and load of a Jetson's memory."""
READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK_BYTES = 1 << 16
_MOST_BYTES = 16 << 20
"""More than any file of the kernel has; a device has no end."""
_MAY_HANG = re.compile(r"sys/class/devfreq/gpu-[^/]+/(min|max|cur)_freq")
"""Files whose reads may never return (Thor under JetPack 7.2, whose driver deadlocks)."""
_PATIENCE_S = 1.0
_readers: dict[Path, subprocess.Popen[bytes]] = {}
"""Processes that wait for an answer of the kernel, by their file; they cannot be ended before it answers."""


class Sysfs:
    """The kernel's files below ``root``; paths are relative to it, e.g. ``sys/class/powercap``.

    Args:
        root: ``/``, or a folder with the same layout.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def read(self, path: str) -> str:
        """Return the text of a file, without surrounding white space; invalid bytes become U+FFFD.

        Raises:
            OSError: the file is missing, may not be read, or its driver returns an error: ``BlockingIOError`` while the
                block is powered off, ``TimeoutError`` where the driver does not answer.
        """
        try:
            content = self.content(path, lambda: self.open_to_read(path))
        except PermissionError:
            if not self._root_may_help(path):
                raise
            return read_sensor(path)
        return content.decode(errors="replace").strip()

    def open_to_read(self, path: str) -> int:
        """Open a file to read it; fakes of the kernel open one that answers as its driver does."""
        return os.open(self.root / path, READ)

    def content(self, path: str, opened: Callable[[], int]) -> bytes:
        """Return the bytes of a file that ``opened`` opens; errors as of ``read``."""
        descriptor = opened()
        try:
            return _within_time(self.root / path, descriptor) if _MAY_HANG.fullmatch(path) else _all_of(descriptor)
        finally:
            os.close(descriptor)

    def open(self, path: str, flags: int) -> int:
        """Open a file; links are followed but never out of the top-level folder of the path."""
        file, tree = (os.path.realpath(self.root / each) for each in (path, path.partition("/")[0]))
        if not file.startswith(f"{tree}/"):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
        return os.open(file, flags | os.O_NOFOLLOW | os.O_CLOEXEC)

    def _root_may_help(self, path: str) -> bool:
        """Whether root may read a file that the kernel denies to the user."""
        return has_helper() and self.root == Path("/") and path.startswith(_KERNEL)

    def text(self, path: str) -> str:
        """Return the text of a file, empty when it cannot be read now."""
        try:
            return self.read(path)
        except (OSError, ValueError):
            return ""

    def read_int(self, path: str) -> int | None:
        """Return the integer in a file, or ``None`` when none can be read now."""
        try:
            return int(self.read(path))
        except (OSError, ValueError):
            return None

    def table(self, path: str) -> tuple[int, ...]:
        """Return the integers in a file, ascending; empty when they cannot be read."""
        try:
            return tuple(sorted(map(int, self.read(path).split())))
        except (OSError, ValueError):
            return ()

    def shows_number(self, path: str) -> bool:
        """Whether the file holds an integer, now or when its block is powered again."""
        try:
            int(self.read(path))
        except BlockingIOError:
            return True
        except (OSError, ValueError):
            return False
        return True

    def write(self, path: str, value: str) -> None:
        """Write a value, as ``echo`` does.

        Raises:
            OSError: the kernel refuses it.
        """
        descriptor = self.open(path, os.O_WRONLY)  # without O_CREAT: a knob is never created
        try:
            os.write(descriptor, value.encode())
        finally:
            os.close(descriptor)

    def writable(self, path: str) -> bool:
        """Whether the file may be written, see ``permits``."""
        return self.permits(path, os.W_OK)

    def permits(self, path: str, mode: int) -> bool:
        """Whether this user has the access ``mode`` to the file (access(2)), or the process of root under sudo."""
        if self._root_may_help(path):
            return permitted(path, mode)
        return os.access(self.root / path, mode, effective_ids=True)

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match, sorted by name with numbers in numerical order."""
        if self._root_may_help(pattern):
            return listed(pattern)
        return sorted(glob.glob(pattern, root_dir=self.root), key=_natural)


@by_root
def read_sensor(path: str) -> str:
    """Return the text of a sensor that only root may read, see ``Sysfs.read``; no other file is read."""
    if not _SENSORS.fullmatch(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    sysfs = Sysfs()
    return sysfs.content(path, lambda: sysfs.open(path, READ)).decode(errors="replace").strip()


@by_root
def permitted(path: str, mode: int) -> bool:
    """Whether root has the access ``mode`` to a file below ``/sys``."""
    return Sysfs().permits(_kernels(path), mode)


@by_root
def listed(pattern: str) -> list[str]:
    """Return the paths below ``/sys`` that match, see ``Sysfs.glob``."""
    return Sysfs().glob(_kernels(pattern))


def _kernels(path: str) -> str:
    if not path.startswith(_KERNEL) or ".." in path.split("/"):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    return path


def _all_of(descriptor: int) -> bytes:
    """Return what is left of an open file; as bytes, because a text file turns EAGAIN into a TypeError (CPython)."""
    found = bytearray()
    while chunk := os.read(descriptor, _CHUNK_BYTES):
        found += chunk
        if len(found) > _MOST_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return bytes(found)


def _within_time(place: Path, descriptor: int) -> bytes:
    """Return what is left of an open file, read by another process: a read may hang where no signal ends it."""
    before = _readers.get(place)
    if before is None or before.poll() is not None:
        os.set_blocking(descriptor, True)
        _readers[place] = subprocess.Popen(
            ["cat"], stdin=descriptor, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            content, _ = _readers[place].communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            _abandon(_readers[place])
        else:
            if _readers.pop(place).returncode:
                raise OSError(errno.EIO, os.strerror(errno.EIO), str(place))
            return content
    raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), str(place))


def _abandon(reader: subprocess.Popen[bytes]) -> None:
    """End a reader as soon as the kernel lets go of it, without waiting."""
    reader.kill()
    if reader.stdout is not None:
        reader.stdout.close()


def _natural(text: str) -> list[tuple[int, str]]:
    """Return a key that orders ``cpu2`` before ``cpu10``, and letters before numbers."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.findall(r"[0-9]+|[^0-9]", text + "\0")]


def why(error: OSError) -> str:
    """Return a short reason why a file could not be used."""
    words = {
        errno.ENOENT: "there is no such interface",
        errno.EACCES: "permission denied",
        errno.EPERM: "operation not permitted",
        errno.EROFS: "it is read-only here",
        errno.EBUSY: "the device is busy",
        errno.EAGAIN: "it has no value while its block is powered off",
        errno.ETIMEDOUT: f"its driver did not answer within {_PATIENCE_S:g} s",
    }
    return words.get(error.errno or 0, error.strerror or str(error))
