"""Detect the Jetson from its own files.

The board's tables, limits and paths are read elsewhere. The detected name goes into the results and selects the
catalogue entry that is compared with the board.
"""

import os
import re
from dataclasses import dataclass, replace

from edgetune.devices.sysfs import Sysfs

KERNEL_GENERATIONS = ("4.9", "5.10", "5.15", "6.8")
"""Kernels of JetPack 4, 5, 6 and 7, whose behaviour on writes is known."""

_JETPACK_OF_L4T = {32: 4, 34: 5, 35: 5, 36: 6, 38: 7, 39: 7}
"""Source: the ``NVIDIA_JETPACK`` table of jetson_stats, jtop/core/jetson_variables.py."""

_MODULES = frozenset(
    ("p2180", "p3310", "p3489", "p3448", "p3636", "p2888", "p3668", "p3701", "p3767", "p3834")  # TX1 to Thor, by age
)
"""Part numbers of modules; other numbers in the device tree are carrier boards and kits.

Source: the ``MODULE_NAME_TABLE`` of jetson_stats, jtop/core/jetson_variables.py, and NVIDIA's nvpower.sh.
"""

_SOCS = {33: "tegra210", 24: "tegra186", 25: "tegra194", 35: "tegra234", 38: "tegra264"}
"""Chips by the number in ``soc_id``. Source: Linux include/soc/tegra/fuse.h and drivers/soc/tegra/fuse/fuse-tegra.c."""

_SOC = "sys/devices/soc0"
_FIRST_NAMESPACE = "cgroup:[4026531835]"
"""Of a machine's first processes. Source: PROC_CGROUP_INIT_INO in Linux include/linux/proc_ns.h."""

_PART = re.compile(r"p\d{4}-\d{4}")
_CONTAINER = re.compile(r"docker|kubepods|containerd|libpod|lxc")


@dataclass(frozen=True, slots=True)
class Jetson:
    """A Jetson as its files describe it; an unknown fact is ``None``.

    Args:
        model: Model in the device tree, e.g. ``NVIDIA Jetson AGX Orin Developer Kit``.
        soc: The chip, e.g. ``tegra234``.
        module: Part number of the module, e.g. ``p3701-0000``.
        super_variant: Whether its device tree is the one that allows the higher clocks of ``MAXN_SUPER``.
        l4t: Linux for Tegra release, e.g. ``36.4.3``.
        jetpack: Major version of JetPack, e.g. 6.
        kernel: Release of the kernel, e.g. ``5.15.148-tegra``.
        kernel_generation: Its first two numbers, e.g. ``5.15``.
        device_tree: Whether the kernel shows the device tree.
        container: Evidence of a container, where nvpmodel reports success without effect; ``None`` outside one.
        notes: Unusual facts about the board, for the user.
    """

    model: str
    soc: str | None
    module: str | None
    super_variant: bool
    l4t: str | None
    jetpack: int | None
    kernel: str | None
    kernel_generation: str | None
    device_tree: bool
    container: str | None
    notes: tuple[str, ...] = ()


def detect_jetson(sysfs: Sysfs) -> Jetson | None:
    """Return this machine's description as a Jetson, or ``None`` on any other machine.

    A Jetson has NVIDIA's release file, or names a chip of a Jetson in its device tree or, where a container hides that,
    in the kernel's description of the chip. Tablets have other Tegra chips.
    """
    release = _read(sysfs, "etc/nv_tegra_release")
    compatible = tuple(filter(None, (_read(sysfs, "proc/device-tree/compatible") or "").split("\0")))
    named = re.search(r"nvidia,(tegra\d+)", " ".join(compatible))
    soc, machine = named[1] if named else None, None
    if not compatible and sysfs.text(f"{_SOC}/family") == "Tegra":
        soc, machine = _SOCS.get(sysfs.read_int(f"{_SOC}/soc_id") or 0), _read(sysfs, f"{_SOC}/machine")
    if release is None and soc not in _SOCS.values() and "Jetson" not in (machine or ""):
        return None
    l4t = re.search(r"R(\d+) \(release\), REVISION: ([\d.]+)", release or "")
    version = re.match(r"Linux version (\S+)", _read(sysfs, "proc/version") or "")
    kernel = _read(sysfs, "proc/sys/kernel/osrelease") or (version[1] if version else None)
    generation = re.match(r"\d+\.\d+", kernel or "")
    found = Jetson(
        model=_read(sysfs, "proc/device-tree/model") or machine or "Jetson",
        soc=soc,
        module=_module(compatible, _read(sysfs, "proc/device-tree/nvidia,dtsfilename")),
        super_variant=any("-super" in name for name in compatible),
        l4t=f"{l4t[1]}.{l4t[2]}" if l4t else None,
        jetpack=_JETPACK_OF_L4T.get(int(l4t[1])) if l4t else None,
        kernel=kernel,
        kernel_generation=generation[0] if generation else None,
        device_tree=bool(compatible),
        container=_container(sysfs),
    )
    return replace(found, notes=tuple(_notes(found)))


def _module(compatible: tuple[str, ...], dts: str | None) -> str | None:
    """Return the module's part number: one of a known family, else the second part of ``carrier+module``."""
    words = " ".join([*compatible, dts or ""])
    known = next((part for part in _PART.findall(words) if part[:5] in _MODULES), None)
    unknown = re.search(rf"\+({_PART.pattern})", words)
    return known or (unknown[1] if unknown else None)


def _container(sysfs: Sysfs) -> str | None:
    for mark in (".dockerenv", "run/.containerenv"):
        if os.path.exists(sysfs.root / mark):
            return f"/{mark} exists"
    word = _CONTAINER.search(_read(sysfs, "proc/1/cgroup") or "")
    if word:
        return f"/proc/1/cgroup names {word[0]}"
    try:  # control groups of version 2 show a container no names
        mine = os.readlink(sysfs.root / "proc/self/ns/cgroup")
    except OSError:
        return None
    return None if mine == _FIRST_NAMESPACE else "its control groups are in a namespace of their own"


def _notes(board: Jetson) -> list[str]:
    """Return one sentence for each fact about the board that edgetune does not know."""
    notes, unknown = [], "is not one known here; the board's own tables are used"
    if board.soc not in _SOCS.values():
        notes.append(f"the chip {board.soc or '(not named)'} {unknown}")
    if board.module is None or board.module[:5] not in _MODULES:
        notes.append(f"the module {board.module or '(not named)'} {unknown}")
    if board.l4t is None:
        notes.append("/etc/nv_tegra_release does not tell the release of Linux for Tegra")
    elif board.jetpack is None:
        notes.append(f"L4T {board.l4t} belongs to no JetPack known here")
    if board.kernel_generation not in KERNEL_GENERATIONS:
        notes.append(f"the kernel {board.kernel or '(unknown)'} is not one of JetPack 4 to 7; every write is read back")
    if board.container:
        notes.append(f"this runs in a container ({board.container}), where nvpmodel only pretends to set modes")
    if board.container and not board.device_tree:
        notes.append("the container hides /proc/device-tree: start it with --security-opt systempaths=unconfined")
    return notes


def _read(sysfs: Sysfs, path: str) -> str | None:
    try:
        text = sysfs.read(path).strip("\0 \n")
    except OSError:
        return None
    return None if "\ufffd" in text else text or None
