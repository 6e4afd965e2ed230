"""Fake kernel files in a folder, with access rights, hidden state, a log of writes, and injected faults.

An ``Answer`` defines the result of reads and writes; a file without one keeps the written text. All state is in files,
so that a second process that opens the folder sees the same kernel.
"""

import errno
import json
import os
import shutil
import signal
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NoReturn

from edgetune.devices.sysfs import READ, Sysfs

HIDDEN = ".fake-kernel"
"""Folder of the fake's own state below its root; not a kernel path."""

DEBUGFS = "sys/kernel/debug"

Fault = str | Callable[[str, str], None]

_silent_pipe = cache(os.pipe)
_FAILING: dict[int | None, Callable[[], int]] = {
    errno.EAGAIN: lambda: os.open(f"/proc/self/fd/{_silent_pipe()[0]}", READ),
    errno.EINVAL: lambda: os.pidfd_open(os.getpid()),
    errno.EIO: lambda: os.open("/proc/self/mem", READ),
}
"""Open files of this machine whose read(2) fails with an error: a pipe whose writer is silent, at which a read that
waits hangs; a process; the page at address 0. Other errors are raised when the file is opened."""


class Killed(BaseException):
    """The process counts as killed by SIGKILL: no later read or write takes effect."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Behaviour of a file: ``read`` returns its present text, ``write`` takes one; either may raise ``OSError``."""

    read: Callable[[], str] | None = None
    write: Callable[[str], None] | None = None


def refuse(code: int, path: str = "") -> NoReturn:
    """Raise an ``OSError``, as a driver does."""
    raise OSError(code, os.strerror(code), path)


class KernelFiles(Sysfs):
    """A ``Sysfs`` over a folder, with the rights of ``user`` (``root`` or ``user``) for any user of the test.

    Rights are those of the files' own permission bits as the kernel gives them. As in a real sysfs, root too may not
    write a file that nobody may write.
    """

    def __init__(self, root: Path, *, user: str = "root") -> None:
        super().__init__(root)
        self.user = user
        self.answers: dict[str, Answer] = {}
        self._base = os.path.realpath(root)
        self._dead = False
        self._reals: dict[str, str] = {}  # cache of followed links, which are slow
        self._own_faults: dict[int, Callable[[str, str], None]] = {}
        self._kept: dict[str, Callable[[str], str]] = {}

    # Changes by drivers and tests: without rights, faults or log.

    def put(self, path: str, text: str | int, mode: int | None = None) -> None:
        """Create or change a file as the kernel itself does; a new file has mode 0644 unless ``mode`` is given."""
        self.put_bytes(path, f"{text}\n".encode(), mode)

    def put_bytes(self, path: str, data: bytes, mode: int | None = None) -> None:
        """Create or change a file atomically, without adding a line end."""
        target = f"{self._base}/{self.real(path)}"
        try:
            before = os.stat(target)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "xb") as file:
                os.fchmod(file.fileno(), 0o644 if mode is None else mode)
                file.write(data)
            return
        if mode is not None and stat.S_IMODE(before.st_mode) != mode:
            os.chmod(target, mode)
        _overwrite(target, data, before.st_size)

    def link(self, path: str, target: str) -> None:
        """Make ``path`` a symbolic link to ``target``, both relative to the root."""
        place = Path(self._base) / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_symlink():
            place.unlink()
        self._reals.clear()
        place.symlink_to(os.path.relpath(Path(self._base) / target, Path(self._base) / os.path.dirname(path)))

    def remove(self, path: str) -> None:
        """Remove a file, a link or a folder, as when a driver is unloaded."""
        self._reals.clear()
        target = self.root / path
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink()

    def raw(self, path: str) -> str:
        """Return a file's stored text."""
        with open(f"{self._base}/{path}", "rb", buffering=0) as file:
            return file.read().decode(errors="replace").strip()

    def real(self, path: str) -> str:
        """Return a path with its symbolic links followed, relative to the root."""
        return path if path in self.answers else self._followed(path)

    def _followed(self, path: str) -> str:
        """Follow the links of a path; one system call where its folder was followed before."""
        known = self._reals.get(path)
        if known is not None or not path:
            return known or ""
        folder, _, name = path.rpartition("/")
        place = f"{self._followed(folder)}/{name}".lstrip("/")
        try:
            os.readlink(f"{self._base}/{place}")
        except OSError as error:
            if error.errno != errno.EINVAL:
                return place  # a missing path may appear later as a link
        else:
            place = os.path.realpath(f"{self._base}/{place}")[len(self._base) + 1 :]
            if not os.path.exists(f"{self._base}/{place}"):
                return place
        self._reals[path] = place
        return place

    def hidden(self, name: str, default: str = "") -> str:
        """Return a value of the hidden state."""
        try:
            return self.raw(f"{HIDDEN}/state/{name}")
        except FileNotFoundError:
            return default

    def hide(self, name: str, text: str | int | float) -> None:
        """Store a value in the hidden state until a power cut."""
        self.put(f"{HIDDEN}/state/{name}", str(text))

    def _own(self, *parts: str) -> Path:
        return Path(self._base, HIDDEN, *parts)

    # Control by tests.

    def deny_reading(self, path: str, error: int = errno.EACCES) -> None:
        """Refuse to read a file, also in other processes.

        With EAGAIN its block is off; a file that ``Sysfs`` reads with a time limit never answers then.
        """
        self._deny("read", path, error)

    def deny_writing(self, path: str, error: int = errno.EACCES) -> None:
        """Refuse to write a file, also in other processes."""
        self._deny("write", path, error)

    def _deny(self, what: str, path: str, error: int) -> None:
        self.put(f"{HIDDEN}/denied/{what}/{_flat(self.real(path))}", error)

    def answer(self, path: str, keep: Callable[[str], str]) -> None:
        """Keep ``keep(value)`` instead of the value written; in this process only."""
        self._kept[self.real(path)] = keep

    @property
    def writes(self) -> list[tuple[str, str]]:
        """Every permitted write, by any process, in order."""
        try:
            lines = self._own("writes").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [(path, value) for path, value in map(json.loads, lines)]

    def forget_writes(self) -> None:
        """Clear the log of writes; faults of ``fail_at`` remain."""
        self._own("writes").unlink(missing_ok=True)

    def fail_at(self, number: int, fault: Fault) -> None:
        """Inject a fault into the ``number``-th write from now, counting from 1, refused writes included.

        Args:
            number: Which write.
            fault: ``kill-before`` and ``kill-after`` raise ``Killed``, as does every later read and write until
                ``revive``; ``power-cut`` raises it before the write, and boots. ``ignored`` returns without effect;
                ``clamped`` lets a clock end at its neighbour in the table (anything else: ignored). An ``errno``
                name, e.g. ``EBUSY``, raises that. The name of a signal, e.g. ``SIGTERM``, sends it to the process that
                writes, and a function is called with path and value, before the write goes on; a function is known to
                this process only.
        """
        at = self._attempts() + number
        if callable(fault):
            self._own_faults[at] = fault
            return
        faults = self._faults()
        faults[str(at)] = fault
        self.put(f"{HIDDEN}/faults", json.dumps(faults))

    def forget_faults(self) -> None:
        """Remove pending faults of ``fail_at``."""
        self._own_faults.clear()
        self._own("faults").unlink(missing_ok=True)

    def revive(self) -> None:
        """Start a new process on the same machine after ``Killed``."""
        self._dead = False

    # Access by the program under test.

    def open_to_read(self, path: str) -> int:
        """Open a file that gives its present text, or an error of its driver: where there is one, at read(2)."""
        self._alive()
        real = self.real(path)
        try:
            self._check(path, real, "read")
            answer = self.answers.get(real)
            if answer is None or answer.read is None:
                return os.open(f"{self._base}/{real}", READ)
            text = answer.read()
        except OSError as error:
            if error.errno not in _FAILING:
                raise
            return _FAILING[error.errno]()
        descriptor, writer = os.pipe()
        with open(writer, "w") as pipe:
            pipe.write(text)
        return descriptor

    def write(self, path: str, value: str) -> None:
        """Pass a value to a file's driver, or fail as set by ``fail_at``."""
        self._alive()
        at = self._attempts() + 1
        self.put(f"{HIDDEN}/attempts", at)
        fault = self._faults().get(str(at))
        if own := self._own_faults.pop(at, None):
            own(path, value)
        if fault in ("kill-before", "power-cut"):
            self._die(power=fault == "power-cut")
        if fault is not None and fault.startswith("E"):
            refuse(getattr(errno, fault), path)
        if fault is not None and fault.startswith("SIG"):
            os.kill(os.getpid(), signal.Signals[fault])
        real = self.real(path)
        self._check(path, real, "write")
        if fault == "clamped":
            self._give(real, self.neighbour(value) or self.raw(path))
        elif fault != "ignored":
            self._give(real, value.strip())
        with self._own("writes").open("a") as log:
            log.write(json.dumps([path, value]) + "\n")
        if fault == "kill-after":
            self._die()

    def writable(self, path: str) -> bool:
        """Whether this user may write the file."""
        try:
            self._check(path, self.real(path), "write")
        except OSError:
            return False
        return True

    def glob(self, pattern: str) -> list[str]:
        """Return the matching paths that this user may see."""
        return [path for path in super().glob(pattern) if not self._out_of_sight(self.real(path))]

    def neighbour(self, value: str) -> str | None:  # noqa: ARG002
        """Return a neighbouring clock value; ``None`` where there is none."""
        return None

    def power_cut(self) -> None:
        """Discard all volatile state."""
        raise NotImplementedError

    # Inside.

    def files_below(self, folder: str) -> Iterator[str]:
        """Yield every file below a folder once, links not followed."""
        if not os.path.isdir(f"{self._base}/{folder}"):
            return
        with os.scandir(f"{self._base}/{folder}") as entries:
            here = sorted((entry for entry in entries if not entry.is_symlink()), key=lambda entry: entry.name)
        for entry in here:
            if entry.is_dir():
                yield from self.files_below(f"{folder}/{entry.name}")
            else:
                yield f"{folder}/{entry.name}"

    def mode_of(self, real: str) -> int:
        """Return a file's permission bits."""
        return stat.S_IMODE(os.stat(f"{self._base}/{real}").st_mode)

    def _give(self, real: str, value: str) -> None:
        answer = self.answers.get(real)
        if real in self._kept:
            self.put(real, self._kept[real](value))
        elif answer is not None and answer.write is not None:
            answer.write(value)
        else:
            self.put(real, value)

    def _check(self, path: str, real: str, what: str) -> None:
        if self._out_of_sight(real):
            refuse(errno.EACCES, path)
        bit = 0o4 if what == "read" else 0o2
        mode = self.mode_of(real)  # a file that is not there: FileNotFoundError
        allowed = mode & (bit * 0o111) if self.user == "root" else mode & bit
        if not allowed:
            refuse(errno.EACCES, path)
        denied = f"{HIDDEN}/denied/{what}/{_flat(real)}"
        if os.path.exists(f"{self._base}/{denied}"):
            refuse(int(self.raw(denied)), path)

    def _out_of_sight(self, real: str) -> bool:
        """Whether a file is in debugfs, which only root may enter, and the user is not root."""
        return self.user != "root" and real.startswith(DEBUGFS + "/")

    def _attempts(self) -> int:
        try:
            return int(self.raw(f"{HIDDEN}/attempts"))
        except FileNotFoundError:
            return 0

    def _faults(self) -> dict[str, str]:
        try:
            faults: dict[str, str] = json.loads(self.raw(f"{HIDDEN}/faults"))
        except FileNotFoundError:
            return {}
        return faults

    def _alive(self) -> None:
        if self._dead:
            raise Killed("this process was killed")

    def _die(self, *, power: bool = False) -> NoReturn:
        if power:
            self.power_cut()
        self._dead = True
        raise Killed("power was cut" if power else "this process was killed")


def _overwrite(target: str, data: bytes, size: int) -> None:
    """Replace a file's text in one write; a shorter text is padded with line ends, which every reader strips.

    Renaming over or truncating the file would make some file systems wait for the disk.
    """
    with open(target, "rb") as file:
        if file.read() == data.ljust(size, b"\n"):
            return
    mode = stat.S_IMODE(os.stat(target).st_mode)
    os.chmod(target, mode | 0o200)  # read-only to the kernel's users, not to the kernel
    descriptor = os.open(target, os.O_WRONLY)
    try:
        os.pwrite(descriptor, data.ljust(size, b"\n"), 0)
        if not data.endswith(b"\n") and len(data) < size:
            os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)
        os.chmod(target, mode)


def _flat(real: str) -> str:
    return real.replace("/", "|")
