"""The journal: a device's snapshot on the disk before the first change, for a restore after any failure.

There are two journals, each a file of JSON in a folder that only the guardian's user can enter:

    DEVICE.run.json    snapshot of the present run, or of one that was killed or lost its power
    DEVICE.kept.json   snapshot before `edgetune device set`, until `edgetune device restore`

A journal is written to a temporary file, synced and renamed, and the folder is synced, so that it is complete or
missing. It is removed only after every setting is verified. A damaged or foreign journal is an error, never applied.
"""

import json
import os
import re
import stat
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from edgetune.artifacts.file_operations import sync_path
from edgetune.devices.control import Snapshot
from edgetune.errors import DeviceError, NotRestoredError
from edgetune.processes.privilege import by_root
from edgetune.version import __version__

FOLDER = "var/lib/edgetune"
VERSION = 1
State = Literal["run", "kept"]
STATES: tuple[State, ...] = ("run", "kept")
"""In the order of a restore: a run began after the kept mode."""

_LARGEST_BYTES = 1 << 20
"""Size limit: a hundred times a board's some 100 settings of 100 bytes."""
_NAME = re.compile(r"[A-Za-z0-9_.:@,+-]+(/[A-Za-z0-9_.:@,+-]+)*")
_LONGEST_VALUE = 4096
"""Length limit of a value: a sysfs file holds at most a page."""


@by_root
def journals_left() -> list[str]:
    """Return the names of the files in the folder of this machine's journals.

    Raises:
        OSError: there is none, or only root may look.
    """
    return os.listdir(Path("/", FOLDER))


class GuardianJournalEntry(BaseModel):
    """One journal.

    Args:
        device: Device name.
        state: ``run`` or ``kept``.
        snapshot: Every setting as found.
        boot_id: Boot of the machine at the time; empty where unknown.
        pid: Process id of the guardian that wrote it.
        started_s: Time of the snapshot, seconds since 1970.
        configuration: The device's configuration at the time; empty where unknown.
        left: Every setting as the kept mode left it; empty where the configuration had changed by then.
        edgetune: Version of the program.
        version: Version of this format.
    """

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)

    device: str
    state: State
    snapshot: Snapshot
    boot_id: str
    pid: int
    started_s: float
    configuration: str = ""
    left: Snapshot = {}
    edgetune: str = __version__
    version: int = VERSION


class Journals:
    """The journals of one device; one guardian at a time may use them (see ``lock``).

    Args:
        device: Device name.
        root: Root of the file system.
    """

    def __init__(self, device: str, root: Path = Path("/")) -> None:
        self._device = device
        self._file = device.replace(":", "-")
        self.folder = root / FOLDER
        self.boot_id = _boot_id(root)

    def path(self, state: State) -> Path:
        """Return the path of a journal."""
        return self.folder / f"{self._file}.{state}.json"

    @property
    def lock(self) -> Path:
        """Path of the lock that a guardian holds while it uses the journals."""
        return self.folder / f"{self._file}.lock"

    def prepare(self) -> None:
        """Make the folder unless it exists, and check that no other user can write there.

        Raises:
            DeviceError: the folder cannot be made, or another user can write there.
        """
        try:
            made = not self.folder.exists()
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if made:
                sync_path(self.folder.parent)
            found = os.lstat(self.folder)
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
                raise DeviceError(
                    f"users other than {os.geteuid()} can write to {self.folder}, so its content cannot be trusted",
                    f"inspect the folder, then: sudo rm -r {self.folder}",
                )
            self.folder.chmod(0o700)
        except OSError as error:
            raise self._unusable(error) from None

    def begin(self, snapshot: Snapshot, configuration: str = "") -> None:
        """Write the snapshot and its configuration before the first change.

        Raises:
            DeviceError: the journal could not be written to the disk, or could not be applied later; nothing may be
                changed.
        """
        if strange := _strange(snapshot):
            hint = "please report this"
            raise DeviceError(f"the settings found on {self._device} cannot be recorded: {strange}", hint)
        self.write(self._entry("run", snapshot, configuration))

    def end(self, state: State = "run") -> None:
        """Remove a journal after its restore; idempotent.

        Raises:
            DeviceError: the file cannot be removed.
        """
        try:
            self.path(state).unlink(missing_ok=True)
            sync_path(self.folder)
        except OSError as error:
            raise self._unusable(error) from None

    def keep(self, snapshot: Snapshot, configuration: str = "", left: Snapshot | None = None) -> None:
        """Turn the run's journal into the kept one.

        The snapshot of an earlier ``keep`` remains the restore target, extended by settings that only this run found
        (limits that a cluster hid while offline). After a restart of the machine, which resets every setting, this
        run's snapshot replaces it.

        Raises:
            NotRestoredError: the earlier kept journal is damaged.
            DeviceError: the journal could not be written to the disk; the run's own remains.
        """
        entry = self._entry("kept", snapshot, configuration)
        earlier = self.read("kept")
        if earlier is not None and earlier.boot_id == self.boot_id:
            more = {name: value for name, value in snapshot.items() if name not in earlier.snapshot}
            entry = earlier.model_copy(update={"snapshot": earlier.snapshot | more})
        same = entry.configuration == configuration
        self.write(entry, left=(left or {}) if same else {})
        self.end("run")

    def restarted_since(self, entry: GuardianJournalEntry) -> bool:
        """Whether the machine has restarted since a journal was written; false where the kernel gives no boot id."""
        return bool(entry.boot_id and self.boot_id) and entry.boot_id != self.boot_id

    def read(self, state: State) -> GuardianJournalEntry | None:
        """Return a journal, or ``None`` when there is none.

        Raises:
            NotRestoredError: the journal is damaged or of another device.
        """
        path = self.path(state)
        try:
            text = _read_private(path)
            if text is None:
                return None
            entry = GuardianJournalEntry.model_validate(_checked(json.loads(text)))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise _damaged(
                self._device, path, f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"
            ) from None
        except OSError as error:
            raise _damaged(self._device, path, error.strerror or str(error)) from None
        except (ValueError, RecursionError):
            raise _damaged(self._device, path, "it is cut short or was changed") from None
        if (entry.device, entry.state, entry.version) != (self._device, state, VERSION):
            raise _damaged(self._device, path, f"it is of {entry.device!r}, {entry.state!r}, version {entry.version}")
        if strange := _strange(entry.snapshot):
            raise _damaged(self._device, path, strange)
        return entry

    def _entry(self, state: State, snapshot: Snapshot, configuration: str) -> GuardianJournalEntry:
        return GuardianJournalEntry(
            device=self._device,
            state=state,
            snapshot=snapshot,
            boot_id=self.boot_id,
            pid=os.getpid(),
            started_s=time.time(),
            configuration=configuration,
        )

    def write(self, entry: GuardianJournalEntry, **changed: object) -> None:
        """Write a journal, some of its fields changed.

        Raises:
            DeviceError: it could not be written to the disk; the one before remains.
        """
        path = self.path(entry.state)
        fresh = path.with_name(f"{path.name}.new")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
            descriptor = os.open(fresh, flags, 0o600)
            try:
                left = _sealed({**entry.model_dump(), **changed})
                while left:
                    left = left[os.write(descriptor, left) :]
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            fresh.replace(path)
            sync_path(self.folder)
        except OSError as error:
            raise self._unusable(error) from None
        finally:  # also after an interrupt by a signal
            with suppress(OSError):
                fresh.unlink(missing_ok=True)

    def _unusable(self, error: OSError) -> DeviceError:
        hint = "no setting is changed without a journal: free space there, or check who may write there"
        return DeviceError(f"the journal in {self.folder} cannot be kept: {error.strerror or error}", hint)


def _sealed(fields: dict[str, Any]) -> bytes:
    """Return the text of a journal with a checksum, which detects a torn write."""
    return json.dumps({**fields, "crc32": _checksum(fields)}, indent=1).encode() + b"\n"


def _checked(value: Any) -> Any:
    """Return the fields of a journal without their checksum.

    Raises:
        ValueError: the checksum does not match.
    """
    if not isinstance(value, dict) or value.pop("crc32", None) != _checksum(value):
        raise ValueError("checksum")
    return value


def _checksum(fields: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(fields, sort_keys=True).encode())


def _strange(snapshot: Snapshot) -> str:
    """Return a description of an invalid entry: a path outside the kernel's files, or a value that is not a short line.

    Empty when all are valid. The device's control checks which settings exist.
    """
    for name, value in snapshot.items():
        if not _NAME.fullmatch(name) or any(part in (".", "..") for part in name.split("/")):
            return f"{name!r} is no setting"
        if not (value.isprintable() and len(value) <= _LONGEST_VALUE):
            return f"the value of {name} is none"
    return ""


def _read_private(path: Path) -> str | None:
    """Return the text of a regular file of this user, or ``None`` when there is none.

    Raises:
        OSError, ValueError: the file is a link, not a regular file, of another user, or too large.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_size > _LARGEST_BYTES:
            raise ValueError("not a journal")
        return file.read(_LARGEST_BYTES).decode()


def _damaged(device: str, path: Path, what: str) -> NotRestoredError:
    hint = f"restart the machine, which undoes every setting, then: edgetune device restore {device} --forget"
    return NotRestoredError(f"the journal {path} cannot be used, so the board may not be as it was found: {what}", hint)


def _boot_id(root: Path) -> str:
    try:
        return (root / "proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
