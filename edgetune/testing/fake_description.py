"""Description of a fake board (module, release, faults), and its identity files.

The description is plain values in one file. Identity files are device tree, release files and versions.
"""

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from edgetune.artifacts.yaml_document import dump_yaml, load_yaml
from edgetune.devices.jetson.catalog import CatalogueBoard, ClockTable, PresetFile, load_board
from edgetune.errors import InputError
from edgetune.testing.fake_files import KernelFiles

_STAND_INS = {
    "jetson-agx-orin-32gb": "jetson-agx-orin-64gb",
    "jetson-orin-nx-8gb": "jetson-orin-nx-16gb",
    "jetson-orin-nano-4gb": "jetson-orin-nano-8gb",
}
"""Boards without a published table use that of a larger sibling; real tables may differ."""

_L4T = {"4.9": "32.7.4", "5.10": "35.4.1", "5.15": "36.4.3", "6.8": "39.2.0"}
"""A release that brings each kernel. Source: release map of jetson_stats, jtop/core/jetson_variables.py."""


@dataclass(frozen=True, slots=True)
class FakeBoard:
    """Description of a fake board, stored as YAML beside its files.

    Args:
        board: Name in the catalogue.
        kernel: ``4.9``, ``5.10``, ``5.15`` or ``6.8``.
        l4t: Release of Linux for Tegra.
        super_dt: Whether the device tree is a ``-super`` one.
        cpu_khz: CPU clocks, kHz.
        gpu_khz: GPU clocks, kHz.
        emc_khz: Memory clocks, kHz.
        mode: nvpmodel mode set at boot.
        seed: Seeds noise and shuffling.
        user: The rights that the program has by default: ``root`` or ``user``.
        offline_policy: How the cpufreq files of an offline cluster answer: ``ebusy``, ``missing`` or ``readable``.
        reonline: Limits of a cluster whose first core comes online again: those of ``boot``, or ``kept``.
        stuck_cores: Cores whose switch fails with EBUSY.
        gpu_node: Whether the devfreq folder is ``present``, ``late`` (only once the GPU was powered) or ``absent``.
        gpu_asleep: What an idle GPU's ``cur_freq`` reads: its ``min``imum, ``zero``, or an ``error``.
        golden_context: Whether a GPU context exists, so that power-gating masks are fixed until reboot.
        cap_refused: Whether the firmware refuses every cap (EINVAL, the cap before it stays; JetPack 6 and later).
        bpmp_ignores: Whether the firmware ignores every memory rate, while the write succeeds.
        emc_drifts: Whether a locked memory rate drifts off after 0.3 s.
        int_max_caps: Whether nvpmodel's -1 ends as 2147483647 Hz, below the highest memory rate of the newest boards.
        debugfs: ``mounted``, ``unmounted``, or ``locked`` (EPERM also for root, as kernel lockdown does).
        labels: Of rails: ``nc`` (unconnected channels say NC), ``missing`` (they have no label file), ``none`` at all.
        shuffle_hwmon: Whether hwmon numbers differ at every boot.
        container: Whether nvpmodel detects a container and does nothing.
    """

    board: str
    kernel: str
    l4t: str
    super_dt: bool
    cpu_khz: tuple[int, ...]
    gpu_khz: tuple[int, ...]
    emc_khz: tuple[int, ...]
    mode: str
    seed: int = 0
    user: str = "root"
    offline_policy: str = "ebusy"
    reonline: str = "boot"
    stuck_cores: tuple[int, ...] = ()
    gpu_node: str = "present"
    gpu_asleep: str = "min"
    golden_context: bool = True
    cap_refused: bool = False
    bpmp_ignores: bool = False
    emc_drifts: bool = False
    int_max_caps: bool = False
    debugfs: str = "mounted"
    labels: str = ""
    shuffle_hwmon: bool = False
    container: bool = False

    @property
    def catalogue(self) -> CatalogueBoard:
        """The board's catalogue entry."""
        return load_board(self.board)

    @property
    def soc(self) -> str:
        """E.g. ``tegra234``."""
        return self.catalogue.soc

    @property
    def qos(self) -> bool:
        """Whether limits are requests that the kernel keeps apart from their effect (Linux 5.5 and later)."""
        return self.kernel != "4.9"

    @property
    def presets(self) -> PresetFile:
        """The nvpmodel file that the release would choose."""
        files = self.catalogue.presets
        return next((file for file in files if file.needs_super == self.super_dt), files[0])

    def to_yaml(self) -> str:
        """Return the description as text."""
        return dump_yaml({key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()})


def from_yaml(text: str) -> FakeBoard:
    """Return the description that ``to_yaml`` wrote.

    Raises:
        InputError: another version wrote it, with other fields.
    """
    values: dict[str, Any] = load_yaml(text, name="board.yaml")
    plain: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
    try:
        return FakeBoard(**plain)
    except TypeError:
        why = "the fake board was made by another version of edgetune"
        raise InputError(why, "make it anew: python -m edgetune.testing.fake_board") from None


def describe(
    board: str,
    *,
    kernel: str | None = None,
    mode: str | None = None,
    super_dt: bool = False,
    l4t: str | None = None,
    **behaviour: Any,
) -> FakeBoard:
    """Return the description of a board, by default with its oldest kernel and its mode without limits.

    Args:
        board: Name in the catalogue.
        kernel: One that the board's releases bring.
        mode: Name of an nvpmodel mode.
        super_dt: Whether the device tree is a ``-super`` one.
        l4t: Release, instead of the usual one of the kernel.
        behaviour: Further fields of ``FakeBoard``.

    Raises:
        InputError: the board, its kernel, its mode or a behaviour does not exist.
    """
    entry = load_board(board)
    kernel = kernel or entry.kernels[0]
    _check(kernel, entry.kernels, f"kernel of {board}")
    for name in behaviour:
        _check(name, [field.name for field in fields(FakeBoard)], "behaviour of a fake board")
    newer_gpu = super_dt or (board == "jetson-agx-orin-64gb" and kernel in ("5.15", "6.8"))
    described = FakeBoard(
        board=board,
        kernel=kernel,
        l4t=l4t or _release(entry, kernel),
        super_dt=super_dt,
        cpu_khz=_table(entry, "cpu", int(super_dt)),
        gpu_khz=_table(entry, "gpu", int(newer_gpu)),
        emc_khz=_table(entry, "emc", int(super_dt)),
        mode="",
        **behaviour,
    )
    names = [preset.name for preset in described.presets.modes]
    usual = next(preset.name for preset in described.presets.modes if preset.id == described.presets.default_id)
    mode = mode or next((name for name in names if name.startswith("MAXN")), usual)
    _check(mode, names, f"mode of {board}")
    return replace(described, mode=mode)


def _check(value: str, offered: list[str] | tuple[str, ...], what: str) -> None:
    if value not in offered:
        raise InputError(f"there is no {what} {value!r}", f"there are {', '.join(offered)}")


def _release(entry: CatalogueBoard, kernel: str) -> str:
    if entry.soc == "tegra264":
        return "38.2.0"
    if entry.name == "jetson-agx-orin-64gb" and kernel == "5.10":
        return "35.1.0"  # JetPack 5.0.2, the last with this table
    return _L4T[kernel]


def _table(entry: CatalogueBoard, clock: str, index: int) -> tuple[int, ...]:
    tables: tuple[ClockTable, ...] = getattr(entry, clock)
    table = tables[min(index, len(tables) - 1)] if entry.soc != "tegra264" else tables[0]
    if table.khz is not None:
        return table.khz
    if entry.name in _STAND_INS:
        return _table(load_board(_STAND_INS[entry.name]), clock, index)
    low, high = table.ends_khz
    steps = table.steps or 10  # a stand-in: only the ends are published
    if low is None or high is None:
        raise InputError(f"{entry.name} has no table of its {clock} clock", "name another board")
    return tuple(low + (high - low) * step // (steps - 1) for step in range(steps))


_OS_RELEASE = {"4.9": "4.9.337-tegra", "5.10": "5.10.104-tegra", "5.15": "5.15.148-tegra", "6.8": "6.8.12-tegra"}
"""6.8.12 is what Thor shows; the others are as their releases name them."""


def boot(files: KernelFiles, board: FakeBoard) -> None:
    """Create the volatile files of the boot loader and the kernel."""
    entry = board.catalogue
    model = entry.models[0] + (" Super" if board.super_dt and not entry.models[0].endswith("Super") else "")
    module = entry.module_ids[0] + ("-super" if board.super_dt else "")
    compatible = [f"nvidia,{module}", f"nvidia,{board.soc}"]
    if module.startswith("p3767"):
        compatible.insert(0, f"nvidia,p3768-0000+{module}")  # on the carrier board of the developer kit
    tree = "proc/device-tree"
    files.put_bytes(f"{tree}/model", f"{model}\0".encode(), 0o444)
    files.put_bytes(f"{tree}/compatible", "".join(f"{name}\0" for name in compatible).encode(), 0o444)
    if board.kernel in ("4.9", "5.10"):
        name = f"tegra{board.soc[-3:]}-{entry.module_ids[0]}.dts"
        files.put_bytes(f"{tree}/nvidia,dtsfilename", f"arch/arm64/boot/dts/{name}\0".encode(), 0o444)
    boots = int(files.hidden("boots", "0"))
    files.put("proc/sys/kernel/random/boot_id", f"00000000-0000-4000-8000-{boots:012d}", 0o444)
    files.put("proc/sys/kernel/osrelease", _OS_RELEASE[board.kernel], 0o444)
    files.put("proc/version", f"Linux version {_OS_RELEASE[board.kernel]} (fake kernel of edgetune)", 0o444)


def install(files: KernelFiles, board: FakeBoard) -> None:
    """Create the persistent files of the release."""
    major, _, revision = board.l4t.partition(".")
    old = {"tegra210": "t210ref", "tegra186": "t186ref", "tegra194": "t186ref"}
    name = "generic" if int(major) >= 36 else old.get(board.soc, "t186ref")
    lines = [
        f"# R{major} (release), REVISION: {revision}, GCID: 00000000, BOARD: {name}, EABI: aarch64, "
        "DATE: Thu Jan  1 00:00:00 UTC 1970"
    ]
    if int(major) >= 36:
        lines.append("# KERNEL_VARIANT: oot")
    files.put("etc/nv_tegra_release", "\n".join(lines))
    defaults = {"CONTROL": "close_loop", "PROFILE": "quiet", "GOVERNOR": "cont"}
    files.put("etc/nvfancontrol.conf", "\n".join(f"FAN_DEFAULT_{what} {value}" for what, value in defaults.items()))
    for folder in ("var/lib/edgetune", "run"):
        (files.root / folder).mkdir(parents=True, exist_ok=True)
