"""``nvidia:N``: an NVIDIA GPU behind NVIDIA's own driver, as a device.

Tested: measuring and running networks on an H100; setting clocks and the power limit on a fake of NVML only.
"""

import os
import platform
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from edgetune.devices.capabilities import Clock, ModeControl, MonotonicClock
from edgetune.devices.control import DirectModes
from edgetune.devices.cpu import CpuLoad, MachineMemory
from edgetune.devices.device import Device, DeviceKind, Listing, LiveSource
from edgetune.devices.guardian.client import guardian_command, open_guardian_modes
from edgetune.devices.guardian.lock import Exclusive
from edgetune.devices.jetson.detect import detect_jetson
from edgetune.devices.nvml.control import NvmlControl
from edgetune.devices.nvml.gpu import Gpu, gpu_count, load_nvml, text, unusable
from edgetune.devices.nvml.sensors import ALL_INSTANCES, GpuTelemetry, open_power, open_thermometer, open_throttling
from edgetune.devices.software import software_versions
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import DeviceError, InputError
from edgetune.processes.privilege import holds_root

POWER_COVERS = "the GPU and its associated circuitry, e.g. memory; not the host"


def open_nvml_device(
    index: int, library: Any = None, *, may_set: bool | None = None, root: Path = Path("/"), clock: Clock | None = None
) -> Device:
    """Open a GPU as a device.

    Args:
        index: GPU number of nvidia-smi.
        library: Used in place of ``pynvml``; this process then sets the modes. See ``tests/fakes/nvml.py``.
        may_set: Whether clocks and limits can be set; by default whether this process holds root.
        root: Root of the file system.
        clock: Clock of the device; the system's monotonic clock by default.

    Raises:
        DeviceError: nvidia-ml-py or the driver is missing, no GPU has this number, or it is a Jetson's.
    """
    gpu = Gpu(load_nvml(library), index)
    refused = unusable(gpu, on_jetson=detect_jetson(Sysfs(root)) is not None)
    if refused is not None:
        raise refused
    clock = clock or MonotonicClock()
    may_set = holds_root() if may_set is None else may_set
    control = NvmlControl(gpu, may_set=may_set, clock=clock)
    modes: ModeControl = DirectModes(control)
    if library is None:
        modes = open_guardian_modes(guardian_command(control.name), control, ask=not may_set)
    throttling = open_throttling(gpu)
    watch = getattr(throttling, "note", lambda: None)
    return Device(
        name=f"nvidia:{index}",
        description=gpu.name,
        simulated=False,
        source=_source(gpu),
        clock=clock,
        power=open_power(gpu, clock, watch),
        modes=modes,
        temperature=open_thermometer(gpu),
        throttle=throttling,
        conditions=_conditions(gpu),
        telemetry=GpuTelemetry(gpu),
        exclusive=nullcontext if library is not None else Exclusive(control.name, root),
        load=CpuLoad(Sysfs(root)),
        memory=MachineMemory(Sysfs(root)),
    )


def _source(gpu: Gpu) -> LiveSource:
    """Return the source that runs workloads on this GPU only.

    CUDA and NVML count GPUs in different orders (CUDA: fastest first), and ONNX Runtime uses CUDA's first. So only
    this GPU is visible to the workload's process, by its UUID, as device 0.
    """
    uuid, chosen = gpu.maybe("nvmlDeviceGetUUID"), os.environ.get("CUDA_VISIBLE_DEVICES", "")
    shown = str(gpu.index) if uuid is None else text(uuid)
    if gpu.mig and chosen.startswith("MIG-"):
        shown = chosen  # one of its instances
    return LiveSource(
        ort_providers=("CUDAExecutionProvider",),
        torch_device="cuda:0",
        environment={"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": shown},
    )


def _conditions(gpu: Gpu) -> dict[str, object]:
    """Return the conditions of a result on this GPU, without the identity of the card (serial number, UUID)."""
    cuda, driver = gpu.nvml.maybe("nvmlSystemGetCudaDriverVersion"), gpu.nvml.maybe("nvmlSystemGetDriverVersion")
    memory, pci = gpu.maybe("nvmlDeviceGetMemoryInfo"), gpu.maybe("nvmlDeviceGetPciInfo")
    range_mw = gpu.maybe("nvmlDeviceGetPowerManagementLimitConstraints")
    vbios, persistence = gpu.maybe("nvmlDeviceGetVbiosVersion"), gpu.maybe("nvmlDeviceGetPersistenceMode")
    processes = gpu.maybe("nvmlDeviceGetComputeRunningProcesses")
    return {
        "gpu": gpu.name,
        "driver": driver and text(driver),
        # 12040 is 12.4 (NVML API reference)
        "cuda_driver": None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
        "vbios": None if vbios is None else text(vbios),
        "pci_bus": None if pci is None else text(pci.busId),
        "pci_device": None if pci is None else f"{pci.pciDeviceId & 0xFFFF:04x}:{pci.pciDeviceId >> 16:04x}",
        "gpu_memory_bytes": None if memory is None else memory.total,
        "power_covers": f"{ALL_INSTANCES}; {POWER_COVERS}" if gpu.mig else POWER_COVERS,
        "power_limit_w": _watts(gpu.maybe("nvmlDeviceGetPowerManagementLimit")),
        "power_limit_default_w": _watts(gpu.maybe("nvmlDeviceGetPowerManagementDefaultLimit")),
        "power_limit_range_w": None if range_mw is None else [_watts(end) for end in range_mw],
        "persistence_mode": None if persistence is None else bool(persistence),
        "mig": gpu.mig,
        "compute_processes": None if processes is None else len(processes),
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        **software_versions(),
    }


def _watts(milliwatts: int | None) -> float | None:
    return None if milliwatts is None else milliwatts / 1e3


def nvidia_gpus(root: Path = Path("/")) -> int:
    """Return the number of NVIDIA GPUs that the kernel driver lists.

    Args:
        root: Root of the file system; another folder in tests.
    """
    try:
        return sum(1 for _ in (root / "proc/driver/nvidia/gpus").iterdir())
    except OSError:
        return 0


def missing_nvidia(failure: DeviceError, root: Path = Path("/")) -> DeviceError:
    """Return the error if no GPU can be opened: the failure to load NVML, or the absence of a GPU."""
    if nvidia_gpus(root):
        return failure
    driver = (root / "proc/driver/nvidia/version").exists()
    why = "the driver knows none" if driver else "its driver is not loaded"
    hint = "check `nvidia-smi`; the device host is the CPU, twin:orin-agx simulates a board"
    return DeviceError(f"no NVIDIA GPU here: {why}", hint)


def nvidia_listings(library: Any = None, root: Path = Path("/")) -> list[Listing]:
    """Return the GPUs of NVML, or those of the kernel with the reason why NVML does not list them.

    Args:
        library: Used in place of ``pynvml``.
        root: Root of the file system.
    """
    try:
        nvml = load_nvml(library)
        count = gpu_count(nvml)
    except DeviceError as failure:
        error = missing_nvidia(failure, root)
        reason = f"{error.message}: {error.hint}" if error is failure else error.message
        return [Listing(f"nvidia:{index}", "NVIDIA GPU", False, reason) for index in range(max(nvidia_gpus(root), 1))]
    if not count:
        return [Listing("nvidia:0", "NVIDIA GPU", False, "no NVIDIA GPU here: the driver knows none")]
    on_jetson = detect_jetson(Sysfs(root)) is not None
    found = []
    for index in range(count):
        name, refused = "NVIDIA GPU", None
        try:
            gpu = Gpu(nvml, index)
            name = gpu.name
            refused = unusable(gpu, on_jetson=on_jetson)
        except DeviceError as error:  # a lost GPU does not hide the others
            refused = error
        reason = "" if refused is None else f"{refused.message}: {refused.hint}"
        found.append(Listing(f"nvidia:{index}", name, refused is None, reason))
    return found


def open_nvidia(name: str, library: Any = None, root: Path = Path("/")) -> Device:
    """Open a GPU by its whole name; arguments as ``nvidia_listings``, errors as ``discover.open_device``."""
    index = name.removeprefix("nvidia").removeprefix(":")
    if not index.isdecimal():
        raise InputError(f"{name!r} does not say which GPU", "write nvidia:0")
    try:
        load_nvml(library)
    except DeviceError as failure:
        raise missing_nvidia(failure, root) from None
    return open_nvml_device(int(index), library, root=root)


KIND = DeviceKind("nvidia:0", True, nvidia_listings, lambda name, _seed: open_nvidia(name))
