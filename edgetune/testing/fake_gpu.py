"""Fake GPU: the devfreq folder of each release, runtime power, and power-gating masks.

Sources: drivers/devfreq/devfreq.c of NVIDIA's Linux 4.9, and of Linux 5.5 and later; nvpmodel's files for the paths;
third-party reading of the nvgpu driver for masks and rail gating.
"""

import errno
from dataclasses import dataclass
from functools import partial

from edgetune.testing.fake_cpu import number
from edgetune.testing.fake_description import FakeBoard
from edgetune.testing.fake_files import Answer, KernelFiles, refuse

_PCI = "sys/devices/platform/bus@0/a808480000.pcie/pci0000:00/0000:00:00.0/0000:01:00.0"
"""Path of Thor's GPU; the bus address is made up."""


@dataclass(frozen=True, slots=True)
class DevfreqNode:
    """A devfreq folder: its device's folder, its own name, and its clocks in kHz."""

    device: str
    name: str
    khz: tuple[int, ...]

    @property
    def folder(self) -> str:
        """The devfreq folder itself."""
        return f"{self.device}/devfreq/{self.name}"


def nodes(board: FakeBoard) -> list[DevfreqNode]:
    """Return the GPU's devfreq folders, the compute engine first."""
    old_names = {"tegra210": "57000000.gpu", "tegra186": "17000000.gp10b", "tegra194": "17000000.gv11b"}
    if board.soc == "tegra264":
        codecs = (board.gpu_khz[0], 1_692_000)  # only the upper end is published
        return [DevfreqNode(_PCI, "gpu-gpc-0", board.gpu_khz), DevfreqNode(_PCI, "gpu-nvd-0", codecs)]
    if board.soc != "tegra234":
        name = old_names[board.soc]
        return [DevfreqNode(f"sys/devices/{name}", name, board.gpu_khz)]
    if board.kernel == "5.10":
        return [DevfreqNode("sys/devices/17000000.ga10b", "17000000.ga10b", board.gpu_khz)]
    return [DevfreqNode("sys/devices/platform/bus@0/17000000.gpu", "17000000.gpu", board.gpu_khz)]


def masks(board: FakeBoard) -> dict[str, set[int]]:
    """Return the power-gating masks of the board, with the values in its modes."""
    found: dict[str, set[int]] = {}
    for file in board.catalogue.presets:
        for preset in file.modes:
            for name, mask in preset.masks.items():
                found.setdefault(name, {0}).add(mask)
    found.pop("gpu_pg_mask", None)  # Thor's is a parameter of the driver, read at boot, not a file in sysfs
    return found


def boot(files: KernelFiles, board: FakeBoard) -> None:
    """Create the files in their state after boot."""
    device = nodes(board)[0].device
    of_name = {"tegra234": "gpu" if board.kernel in ("5.15", "6.8") else "ga10b", "tegra210": "gpu"}
    name = of_name.get(board.soc, board.catalogue.gpu_name)
    files.put_bytes(f"{device}/of_node/compatible", f"nvidia,{board.catalogue.gpu_name}\0".encode(), 0o444)
    files.put_bytes(f"{device}/of_node/name", f"{name}\0".encode(), 0o444)
    files.put(f"{device}/power/control", "auto")
    files.put(f"{device}/power/runtime_status", "suspended", 0o444)
    if board.soc == "tegra264":
        files.link("sys/bus/pci/devices/0000:01:00.0", device)
    else:
        _put_nvgpu(files, board, device)
    if board.gpu_node == "present":
        _put_nodes(files, board)
    vic = DevfreqNode("sys/devices/platform/15340000.vic", "15340000.vic", (115_200, 601_600))  # the video engine
    files.put_bytes(f"{vic.device}/of_node/compatible", f"nvidia,{board.soc}-vic\0".encode(), 0o444)
    files.put_bytes(f"{vic.device}/of_node/name", b"vic\0", 0o444)
    _put_devfreq(files, vic, "userspace")


def _put_nvgpu(files: KernelFiles, board: FakeBoard, device: str) -> None:
    files.put(f"{device}/load", 0, 0o444)
    for mask in masks(board):
        files.put(f"{device}/{mask}", 0)
    if board.kernel in ("4.9", "5.10"):
        files.link("sys/devices/gpu.0", device)
    if board.kernel != "4.9":
        files.link("sys/devices/platform/gpu.0", device)
    if device.startswith("sys/devices/platform/bus@0/"):
        files.link("sys/devices/platform/17000000.gpu", device)


def _put_nodes(files: KernelFiles, board: FakeBoard) -> None:
    for node in nodes(board):
        _put_devfreq(files, node, "nvhost_podgov")
        if board.kernel != "4.9" and board.soc != "tegra264":
            files.link(f"{node.device}/devfreq_dev", node.folder)
        _limit(files, node, 0, 0)


def _put_devfreq(files: KernelFiles, node: DevfreqNode, governor: str) -> None:
    files.put(f"{node.folder}/available_frequencies", " ".join(f"{khz}000" for khz in node.khz), 0o444)
    files.put(f"{node.folder}/min_freq", f"{node.khz[0]}000")
    files.put(f"{node.folder}/max_freq", f"{node.khz[-1]}000")
    files.put(f"{node.folder}/cur_freq", f"{node.khz[0]}000", 0o444)
    files.put(f"{node.folder}/governor", governor)
    files.link(f"{node.folder}/device", node.device)
    files.link(f"sys/class/devfreq/{node.name}", node.folder)


def answers(files: KernelFiles, board: FakeBoard) -> dict[str, Answer]:
    """Return the ``Answer`` of each file, by path."""
    device = nodes(board)[0].device
    found = {f"{device}/power/control": Answer(write=partial(_control, files, board, f"{device}/power/control"))}
    found[f"{device}/power/runtime_status"] = Answer(lambda: "suspended" if asleep(files, board) else "active")
    found[f"{device}/load"] = Answer(lambda: str(round(1000 * float(files.hidden("busy.gpu", "0")))))
    for name, valid in masks(board).items():
        found[f"{device}/{name}"] = Answer(write=partial(_mask, files, board, f"{device}/{name}", valid))
    for node in nodes(board):
        found[f"{node.folder}/cur_freq"] = Answer(partial(_clock, files, board, node))
        for end in ("min", "max"):
            found[f"{node.folder}/{end}_freq"] = Answer(write=partial(_ask, files, board, node, end))
    return found


def asleep(files: KernelFiles, board: FakeBoard) -> bool:
    """Whether the GPU is powered off: idle, and permitted to sleep."""
    device = nodes(board)[0].device
    return files.raw(f"{device}/power/control") == "auto" and float(files.hidden("busy.gpu", "0")) == 0


def _wake(files: KernelFiles, board: FakeBoard) -> None:
    """Power on the GPU; a late node appears now (nvpmodel at boot is still too early)."""
    if board.gpu_node == "late" and files.hidden("booted") and not (files.root / nodes(board)[0].folder).exists():
        _put_nodes(files, board)


def _control(files: KernelFiles, board: FakeBoard, path: str, value: str) -> None:
    if value not in ("on", "auto"):
        refuse(errno.EINVAL, path)
    files.put(path, value)
    if value == "on":
        _wake(files, board)


def _mask(files: KernelFiles, board: FakeBoard, path: str, valid: set[int], value: str) -> None:
    wanted = number(value)  # base 10, as the driver parses it
    if str(wanted) == files.raw(path):
        return
    if wanted not in valid:
        refuse(errno.EINVAL, path)
    if board.golden_context and files.hidden("booted"):
        refuse(errno.EBUSY if board.kernel != "4.9" else errno.ENODEV, path)
    files.put(path, wanted)


def _clock(files: KernelFiles, board: FakeBoard, node: DevfreqNode) -> str:
    if asleep(files, board) and board.gpu_asleep == "error":
        refuse(errno.EINVAL, f"{node.folder}/cur_freq")
    if asleep(files, board) and board.gpu_asleep == "zero":
        return "0"
    return f"{current_khz(files, node)}000"


def _ask(files: KernelFiles, board: FakeBoard, node: DevfreqNode, end: str, value: str) -> None:
    """Write a limit in Hz: 4.9 as NVIDIA's devfreq.c, later kernels as a request kept in kHz."""
    hz = number(value)
    if board.qos:
        low, high = (int(files.hidden(f"{node.name}.{name}", "0")) for name in ("min", "max"))
        if end == "min":
            _limit(files, node, hz // 1000, high)
        else:
            _limit(files, node, low, -(-hz // 1000))
        return
    low, high = (int(files.raw(f"{node.folder}/{name}_freq")) for name in ("min", "max"))
    if (end == "min" and hz > high > 0) or (end == "max" and 0 < hz < low):
        refuse(errno.EINVAL, f"{node.folder}/{end}_freq")
    first, last = node.khz[0] * 1000, node.khz[-1] * 1000
    # A maximum of 0 passes every check and stays 0.
    files.put(f"{node.folder}/{end}_freq", max(hz, first) if end == "min" else min(hz, last))


def _limit(files: KernelFiles, node: DevfreqNode, low: int, high: int) -> None:
    """Keep the request, kHz, and show its effect: the maximum wins where the limits cross; 0 is no limit."""
    files.hide(f"{node.name}.min", low)
    files.hide(f"{node.name}.max", high)
    first, last = node.khz[0], node.khz[-1]
    highest = min(max(high or last, first), last)
    files.put(f"{node.folder}/min_freq", min(max(low, first), highest) * 1000)
    files.put(f"{node.folder}/max_freq", highest * 1000)


def current_khz(files: KernelFiles, node: DevfreqNode) -> int:
    """Return the clock that the governor requests now: the highest allowed under load, else the lowest."""
    if not (files.root / node.folder / "governor").exists():
        return 0
    low, high = (int(files.raw(f"{node.folder}/{end}_freq")) // 1000 for end in ("min", "max"))
    wanted = high if float(files.hidden("busy.gpu", "0")) > 0 else low
    return max((khz for khz in node.khz if khz <= wanted), default=node.khz[0])
