"""Small files in which the kernel shows and takes single values, and why one of them could not be read."""

from __future__ import annotations

import errno
import os
from pathlib import Path


class Sysfs:
    """The kernel's files below ``root``; paths are relative to it, e.g. ``sys/class/powercap``.

    Args:
        root: ``/``, or a folder that looks like it.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def read(self, path: str) -> str:
        """Return the text of a file, without surrounding white space.

        Raises:
            OSError: it is missing, may not be read, or its driver answers with an error.
        """
        return (self.root / path).read_text().strip()

    def read_int(self, path: str) -> int | None:
        """Return the integer in a file, or ``None`` when there is none to be had now."""
        try:
            return int(self.read(path))
        except (OSError, ValueError):
            return None

    def write(self, path: str, value: str) -> None:
        """Write a value, as ``echo`` does.

        Raises:
            OSError: the kernel refuses it.
        """
        descriptor = os.open(self.root / path, os.O_WRONLY)  # never creates: a knob exists or it does not
        try:
            os.write(descriptor, value.encode())
        finally:
            os.close(descriptor)

    def writable(self, path: str) -> bool:
        """Whether this user may write the file."""
        return os.access(self.root / path, os.W_OK)

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match, sorted by name with numbers in numerical order."""
        found = (str(path.relative_to(self.root)) for path in self.root.glob(pattern))
        return sorted(found, key=_natural)


def _natural(text: str) -> list[tuple[int, str]]:
    """Order ``cpu2`` before ``cpu10``."""
    pieces, number = [], ""
    for character in text + "\0":
        if character.isdigit():
            number += character
            continue
        if number:
            pieces.append((int(number), ""))
            number = ""
        pieces.append((-1, character))
    return pieces


def why(error: OSError) -> str:
    """Say in a few words why a file could not be used."""
    words = {
        errno.ENOENT: "there is no such interface",
        errno.EACCES: "permission denied",
        errno.EPERM: "operation not permitted",
        errno.EROFS: "it is read-only here",
        errno.EINVAL: "the kernel refused the value",
        errno.EBUSY: "the device is busy",
    }
    return words.get(error.errno or 0, error.strerror or str(error))
