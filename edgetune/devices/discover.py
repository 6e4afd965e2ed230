"""Devices by name: what is here, what can be opened, and why the rest cannot.

``auto`` takes the first real accelerator, else the host; nothing simulated and no table is ever chosen silently.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgetune.devices.device import Device
from edgetune.errors import DeviceError, InputError

AUTO = "auto"
_ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class Listing:
    """One device that can be named.

    Args:
        name: What to write after ``--device``.
        description: One line for people.
        available: Whether it can be opened now.
        reason: Why not; empty when it can.
    """

    name: str
    description: str
    available: bool
    reason: str


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """One kind of device: how to list and how to open it.

    Args:
        example: A name of this kind, for messages.
        chosen: Whether ``auto`` may take it: real hardware only.
        listings: What there is of it here.
        open: Opens it from its whole name and a seed.
    """

    example: str
    chosen: bool
    listings: Callable[[], list[Listing]]
    open: Callable[[str, int], Device]


def open_device(name: str, *, seed: int = 0) -> Device:
    """Open a device by name.

    Args:
        name: ``auto``, ``host``, ``recorded:FILE``, ``twin:BOARD``, ``nvidia:0`` or ``jetson``.
        seed: Seed of a twin's noise.

    Raises:
        InputError: an unknown name.
        DeviceError: the device, its driver or its library is not here.
    """
    name = auto_name() if name == AUTO else name
    return _kind_of(name).open(name, seed)


def list_devices() -> list[Listing]:
    """Return every device that can be named here, real ones first; those that cannot be opened say why."""
    return [listing for kind in KINDS.values() for listing in kind.listings()]


def auto_name() -> str:
    """Return the name of the device that ``auto`` takes here.

    Raises:
        DeviceError: there is none.
    """
    for kind in KINDS.values():
        if kind.chosen:
            for listing in kind.listings():
                if listing.available:
                    return listing.name
    raise DeviceError("there is no device here", "`edgetune device` lists what can be named")


def _kind_of(name: str) -> DeviceKind:
    kind = KINDS.get(name.partition(":")[0].partition("?")[0])
    if kind is not None:
        return kind
    names = [AUTO, *(kind.example for kind in KINDS.values())]
    near = difflib.get_close_matches(name, [*names, *KINDS], n=1)
    if not near and Path(name).is_file():
        raise InputError(f"unknown device {name!r}", f"to use a file as a device write recorded:{name}")
    known = f"known: {', '.join(names)}"
    if not near:
        raise InputError(f"unknown device {name!r}", known)
    meant = KINDS[near[0]].example if near[0] in KINDS else near[0]
    raise InputError(f"unknown device {name!r}", f"did you mean {meant}? {known}")


def nvidia_gpus(root: Path = _ROOT) -> int:
    """Return how many NVIDIA GPUs the driver of this machine knows.

    Args:
        root: Where the file system starts; another folder in tests.
    """
    try:
        return sum(1 for _ in (root / "proc/driver/nvidia/gpus").iterdir())
    except OSError:
        return 0


def missing_nvidia(failure: DeviceError, root: Path = _ROOT) -> DeviceError:
    """Return why no GPU can be opened here: the failure to load NVML, or that there is no GPU to load it for."""
    if nvidia_gpus(root):
        return failure
    driver = (root / "proc/driver/nvidia/version").exists()
    why = "the driver knows none" if driver else "its driver is not loaded"
    hint = "check `nvidia-smi`; the device host is the CPU, twin:orin-agx simulates a board"
    return DeviceError(f"no NVIDIA GPU here: {why}", hint)


def missing_jetson() -> DeviceError:
    """Return what to say where there is no Jetson."""
    return DeviceError("this machine is not a Jetson", "the device twin:orin-agx simulates one")


def nvidia_listings(library: Any = None, root: Path = _ROOT) -> list[Listing]:
    """Return the GPUs that NVML knows, or those of the kernel with why NVML does not.

    Args:
        library: Used in place of ``pynvml``.
        root: Where the file system starts.
    """
    from edgetune.devices.nvml.device import list_gpus

    try:
        gpus = list_gpus(library, root)
    except DeviceError as failure:
        error = missing_nvidia(failure, root)
        reason = f"{error.message}: {error.hint}" if error is failure else error.message
        return [Listing(f"nvidia:{index}", "NVIDIA GPU", False, reason) for index in range(max(nvidia_gpus(root), 1))]
    if not gpus:
        return [Listing("nvidia:0", "NVIDIA GPU", False, "no NVIDIA GPU here: the driver knows none")]
    reasons = ["" if refused is None else f"{refused.message}: {refused.hint}" for _, refused in gpus]
    return [Listing(f"nvidia:{index}", gpus[index][0], not reason, reason) for index, reason in enumerate(reasons)]


def open_nvidia(name: str, library: Any = None, root: Path = _ROOT) -> Device:
    """Open a GPU by its whole name; arguments as ``nvidia_listings``, errors as ``open_device``."""
    index = name.removeprefix("nvidia").removeprefix(":")
    if not index.isdecimal():
        raise InputError(f"{name!r} does not say which GPU", "write nvidia:0")
    from edgetune.devices.nvml.binding import load_nvml
    from edgetune.devices.nvml.device import open_nvml_device

    try:
        load_nvml(library)
    except DeviceError as failure:
        raise missing_nvidia(failure, root) from None
    return open_nvml_device(int(index), library, root=root)


def _list_nvidia() -> list[Listing]:
    return nvidia_listings()


def _open_nvidia(name: str, seed: int) -> Device:  # noqa: ARG001 - every kind is opened alike
    return open_nvidia(name)


def _list_jetson() -> list[Listing]:
    from edgetune.devices.jetson.detect import detect_jetson
    from edgetune.devices.sysfs import Sysfs

    board = detect_jetson(Sysfs())
    if board is None:
        return [Listing("jetson", "NVIDIA Jetson board", False, missing_jetson().message)]
    return [Listing("jetson", board.model, True, "")]


def _open_jetson(name: str, seed: int) -> Device:  # noqa: ARG001
    from edgetune.devices.jetson.device import open_jetson_at

    return open_jetson_at(name=name)


def _list_host() -> list[Listing]:
    return [Listing("host", "the CPU of this machine", True, "")]


def _open_host(name: str, seed: int) -> Device:  # noqa: ARG001
    _require_bare(name, "host")
    from edgetune.devices.host import open_host

    return open_host()


def _list_recorded() -> list[Listing]:
    return [Listing("recorded:FILE", "any profile table: answers what it holds, nothing in between", True, "")]


def _open_recorded(name: str, seed: int) -> Device:  # noqa: ARG001
    from edgetune.devices.recorded import open_recorded

    return open_recorded(name.removeprefix("recorded").removeprefix(":"))


def _list_twins() -> list[Listing]:
    from edgetune.devices.twin import list_boards

    return [Listing(f"twin:{board}", "digital twin of the board (simulated)", True, "") for board in list_boards()]


def _open_twin(name: str, seed: int) -> Device:
    from edgetune.devices.twin import list_boards, open_twin

    board = name.removeprefix("twin").removeprefix(":").partition("?")[0]
    boards = list_boards()
    if board not in boards:
        near = difflib.get_close_matches(board, boards, n=1)
        known = f"known: {', '.join(f'twin:{b}' for b in boards)}"
        hint = f"did you mean twin:{near[0]}? {known}" if near else known
        raise InputError(f"there is no twin of {board!r}" if board else f"{name!r} names no board", hint)
    return open_twin(name, seed=seed)


def _require_bare(name: str, word: str) -> None:
    if name != word:
        raise InputError(f"unknown device {name!r}", f"write {word}")


KINDS: Mapping[str, DeviceKind] = {
    "jetson": DeviceKind("jetson", True, _list_jetson, _open_jetson),
    "nvidia": DeviceKind("nvidia:0", True, _list_nvidia, _open_nvidia),
    "host": DeviceKind("host", True, _list_host, _open_host),
    "twin": DeviceKind("twin:orin-agx", False, _list_twins, _open_twin),
    "recorded": DeviceKind("recorded:FILE", False, _list_recorded, _open_recorded),
}
"""Every kind of device, by the first word of its name, in the order that ``auto`` looks at them."""
