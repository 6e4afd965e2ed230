"""Fake GPU: the devfreq folder where each release has it, runtime power, and power-gating masks."""

from __future__ import annotations

import errno
from dataclasses import dataclass

from edgetune.testing.fake_cpu import number
from edgetune.testing.fake_description import FakeBoard
from edgetune.testing.fake_files import Answer, KernelFiles, refuse

_PCI = "sys/devices/platform/bus@0/a808480000.pcie/pci0000:00/0000:00:00.0/0000:01:00.0"
"""Where Thor's GPU sits; the bus address is made up."""


@dataclass(frozen=True, slots=True)
class Node:
    """A devfreq folder: its device's folder, its own name, and its clocks in kHz."""

    device: str
    name: str
    khz: tuple[int, ...]

    @property
    def folder(self) -> str:
        """The devfreq folder itself."""
        return f"{self.device}/devfreq/{self.name}"


def nodes(board: FakeBoard) -> list[Node]:
    """Return the GPU's devfreq folders, the one that computes first."""
    old_names = {"tegra210": "57000000.gpu", "tegra186": "17000000.gp10b", "tegra194": "17000000.gv11b"}
    if board.soc == "tegra264":
        codecs = (board.gpu_khz[0], 1_692_000)  # only the upper end is published
        return [Node(_PCI, "gpu-gpc-0", board.gpu_khz), Node(_PCI, "gpu-nvd-0", codecs)]
    if board.soc != "tegra234":
        name = old_names[board.soc]
        return [Node(f"sys/devices/{name}", name, board.gpu_khz)]
    if board.kernel == "5.10":
        return [Node("sys/devices/17000000.ga10b", "17000000.ga10b", board.gpu_khz)]
    return [Node("sys/devices/platform/bus@0/17000000.gpu", "17000000.gpu", board.gpu_khz)]


def masks(board: FakeBoard) -> dict[str, set[int]]:
    """Return the power-gating masks that the board knows, with the values that its modes use."""
    found: dict[str, set[int]] = {}
    for file in board.catalogue.presets:
        for preset in file.modes:
            for name, mask in preset.masks.items():
                found.setdefault(name, {0}).add(mask)
    found.pop("gpu_pg_mask", None)  # Thor's is a parameter of the driver, read at boot, not a file in sysfs
    return found


def boot(files: KernelFiles, board: FakeBoard) -> None:
    """Make the files as a kernel has them before anything was set."""
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
    _put_other(files, board)


def _put_nvgpu(files: KernelFiles, board: FakeBoard, device: str) -> None:
    files.put(f"{device}/load", 0, 0o444)
    files.put(f"{device}/railgate_enable", 1 if board.railgate else 0)
    for mask in masks(board):
        files.put(f"{device}/{mask}", 0)
    if board.kernel != "6.8":
        files.put(f"{device}/enable_3d_scaling", 1)
    if board.kernel in ("4.9", "5.10"):
        files.link("sys/devices/gpu.0", device)
    if board.kernel != "4.9":
        files.link("sys/devices/platform/gpu.0", device)
    if device.startswith("sys/devices/platform/bus@0/"):
        files.link("sys/devices/platform/17000000.gpu", device)


def _put_nodes(files: KernelFiles, board: FakeBoard) -> None:
    for node in nodes(board):
        _put_devfreq(files, node, "nvhost_podgov userspace performance simple_ondemand")
        if board.kernel != "4.9" and board.soc != "tegra264":
            files.link(f"{node.device}/devfreq_dev", node.folder)
        _limit(files, board, node, 0, 0)


def _put_devfreq(files: KernelFiles, node: Node, governors: str) -> None:
    files.put(f"{node.folder}/available_frequencies", " ".join(f"{khz}000" for khz in node.khz), 0o444)
    files.put(f"{node.folder}/min_freq", f"{node.khz[0]}000")
    files.put(f"{node.folder}/max_freq", f"{node.khz[-1]}000")
    files.put(f"{node.folder}/cur_freq", f"{node.khz[0]}000", 0o444)
    files.put(f"{node.folder}/target_freq", f"{node.khz[0]}000", 0o444)
    files.put(f"{node.folder}/available_governors", governors, 0o444)
    files.put(f"{node.folder}/governor", governors.split()[0])
    files.put(f"{node.folder}/polling_interval", 25)
    files.link(f"{node.folder}/device", node.device)
    files.link(f"sys/class/devfreq/{node.name}", node.folder)


def _put_other(files: KernelFiles, board: FakeBoard) -> None:
    """Add the video engine: a devfreq folder that is no GPU."""
    vic = Node("sys/devices/platform/15340000.vic", "15340000.vic", (115_200, 601_600))
    files.put_bytes(f"{vic.device}/of_node/compatible", f"nvidia,{board.soc}-vic\0".encode(), 0o444)
    files.put_bytes(f"{vic.device}/of_node/name", b"vic\0", 0o444)
    _put_devfreq(files, vic, "userspace performance")


def answers(files: KernelFiles, board: FakeBoard) -> dict[str, Answer]:
    """Return how the files answer, by path."""
    device = nodes(board)[0].device
    found = {f"{device}/power/control": Answer(write=_control(files, board, f"{device}/power/control"))}
    found[f"{device}/power/runtime_status"] = Answer(read=lambda: "suspended" if asleep(files, board) else "active")
    found[f"{device}/load"] = Answer(read=lambda: str(round(1000 * float(files.hidden("busy.gpu", "0")))))
    found[f"{device}/railgate_enable"] = Answer(write=_railgate(files, board, f"{device}/railgate_enable"))
    for name, valid in masks(board).items():
        found[f"{device}/{name}"] = Answer(write=_mask(files, board, f"{device}/{name}", valid))
    for node in nodes(board):
        found |= _node_answers(files, board, node)
    return found


def asleep(files: KernelFiles, board: FakeBoard) -> bool:
    """Whether the GPU is powered off: idle, and allowed to."""
    device = nodes(board)[0].device
    gate = files.root / device / "railgate_enable"
    allowed = files.raw(f"{device}/power/control") == "auto" and (not gate.exists() or gate.read_text().strip() == "1")
    return allowed and float(files.hidden("busy.gpu", "0")) == 0


def _wake(files: KernelFiles, board: FakeBoard) -> None:
    if board.gpu_node == "late" and not (files.root / nodes(board)[0].folder).exists():
        _put_nodes(files, board)


def _control(files: KernelFiles, board: FakeBoard, path: str):  # type: ignore[no-untyped-def]
    def write(value: str) -> None:
        if value not in ("on", "auto"):
            refuse(errno.EINVAL, path)
        files.put(path, value)
        if value == "on":
            _wake(files, board)

    return write


def _railgate(files: KernelFiles, board: FakeBoard, path: str):  # type: ignore[no-untyped-def]
    def write(value: str) -> None:
        wanted = number(value)
        if str(wanted) == files.raw(path):
            return
        if not board.railgate:
            refuse(errno.EINVAL, path)  # "Railgating is not supported"
        files.put(path, wanted)
        if wanted == 0:
            _wake(files, board)

    return write


def _mask(files: KernelFiles, board: FakeBoard, path: str, valid: set[int]):  # type: ignore[no-untyped-def]
    def write(value: str) -> None:
        wanted = number(value)  # base 10, as the driver parses it
        if str(wanted) == files.raw(path):
            return
        if wanted not in valid:
            refuse(errno.EINVAL, path)
        if board.golden_context and files.hidden("booted"):
            refuse(errno.EBUSY if board.kernel != "4.9" else errno.ENODEV, path)
        files.put(path, wanted)

    return write


def _node_answers(files: KernelFiles, board: FakeBoard, node: Node) -> dict[str, Answer]:
    folder = node.folder

    def limit(end: str):  # type: ignore[no-untyped-def]
        return lambda value: _ask(files, board, node, end, number(value))

    def governor(value: str) -> None:
        if value not in files.raw(f"{folder}/available_governors").split():
            refuse(errno.EINVAL, f"{folder}/governor")
        files.put(f"{folder}/governor", value)
        chosen = files.root / folder / "userspace/set_freq"
        if value == "userspace":
            files.put(f"{folder}/userspace/set_freq", "undefined")
        elif chosen.exists():
            files.remove(f"{folder}/userspace")

    def clock() -> str:
        if asleep(files, board) and board.gpu_asleep == "error":
            refuse(errno.EINVAL, f"{folder}/cur_freq")
        if asleep(files, board) and board.gpu_asleep == "zero":
            return "0"
        return f"{current_khz(files, board, node)}000"

    return {
        f"{folder}/min_freq": Answer(write=limit("min")),
        f"{folder}/max_freq": Answer(write=limit("max")),
        f"{folder}/governor": Answer(write=governor),
        f"{folder}/cur_freq": Answer(read=clock),
        f"{folder}/target_freq": Answer(read=lambda: f"{current_khz(files, board, node)}000"),
        f"{folder}/userspace/set_freq": Answer(
            write=lambda value: files.put(f"{folder}/userspace/set_freq", number(value))
        ),
    }


def _ask(files: KernelFiles, board: FakeBoard, node: Node, end: str, hz: int) -> None:
    if board.qos:
        low, high = (int(files.hidden(f"{node.name}.{name}", "0")) for name in ("min", "max"))
        if end == "min":
            _limit(files, board, node, hz // 1000, high)  # kept in kHz, min rounded down
        else:
            _limit(files, board, node, low, -(-hz // 1000))  # and max up
        return
    low, high = (int(files.raw(f"{node.folder}/{name}_freq")) for name in ("min", "max"))
    first, last = node.khz[0] * 1000, node.khz[-1] * 1000
    if hz and ((end == "min" and hz > high > 0) or (end == "max" and hz < low)):
        refuse(errno.EINVAL, f"{node.folder}/{end}_freq")
    if end == "min":
        hz = max(hz, first)
    else:
        hz = min(hz, last)  # 0 passes every check, and stays
    files.put(f"{node.folder}/{end}_freq", hz)


def _limit(files: KernelFiles, board: FakeBoard, node: Node, low: int, high: int) -> None:
    """Keep what was asked for, in kHz, and show what comes of it: the lower of two limits that cross wins; 0 is none."""
    files.hide(f"{node.name}.min", low)
    files.hide(f"{node.name}.max", high)
    first, last = node.khz[0], node.khz[-1]
    highest = min(max(high or last, first), last)
    lowest = min(max(low, first), highest)
    files.put(f"{node.folder}/min_freq", lowest * 1000)
    files.put(f"{node.folder}/max_freq", highest * 1000)


def current_khz(files: KernelFiles, board: FakeBoard, node: Node) -> int:
    """Return the clock that the governor asks for now: the highest allowed under load, else the lowest."""
    if not (files.root / node.folder / "governor").exists():
        return 0
    low, high = (int(files.raw(f"{node.folder}/{end}_freq")) // 1000 for end in ("min", "max"))
    governor = files.raw(f"{node.folder}/governor")
    busy = float(files.hidden("busy.gpu", "0")) > 0
    wanted = high if governor == "performance" or busy else low
    if governor == "userspace":
        chosen = files.raw(f"{node.folder}/userspace/set_freq")
        wanted = int(chosen) // 1000 if chosen.isdecimal() else low
    wanted = min(max(wanted, low), max(high, low))
    return max((khz for khz in node.khz if khz <= wanted), default=node.khz[0])
