"""Fake nvpmodel: its configuration, its status file, the effect of a mode, and whether the command sets it.

The configuration has the oddities of NVIDIA's files: parameters with and without a space after ``<``, tabs, doubled
spaces, trailing comments, ``_KNEXT`` twins for newer kernels, a core 0 that has no line (TX2), one clock for each core
(``-super`` files), and ids out of order of speed.

Sources: the order of writes in NVIDIA's configuration files; texts and exit codes as captured on boards.
"""

import errno

from edgetune.devices.jetson.catalog import Preset
from edgetune.testing import fake_emc, fake_gpu, fake_power
from edgetune.testing.fake_cpu import CPU, policies
from edgetune.testing.fake_description import FakeBoard
from edgetune.testing.fake_files import KernelFiles

_FREQ_FILES = (("FREQ_TABLE", "available_frequencies"), ("MAX_FREQ", "max_freq"), ("MIN_FREQ", "min_freq"))


def conf_text(board: FakeBoard) -> str:
    """Return the board's configuration file."""
    params = [_cores(board), *_masks(board), *_cpu_clocks(board), *_gpu(board), _emc(board), *_current_limits(board)]
    rule = "#" * 27
    blocks = [
        "#\n# Made for edgetune's fake board, in the grammar of NVIDIA's files; it is not one of them.\n#",
        *params,
        f"{rule}\n#                         #\n# POWER_MODEL DEFINITIONS #\n#                         #\n{rule}",
        *(_model(board, preset) for preset in board.presets.modes),
        f"# mandatory section to configure the default mode\n< PM_CONFIG DEFAULT={board.presets.default_id} >",
    ]
    if board.kernel != "4.9":
        blocks.append("< FAN_CONFIG DEFAULT=quiet >")
    return "\n\n".join(blocks)


def _cores(board: FakeBoard) -> str:
    lines = [f"CORE_{cpu} /{CPU}/cpu{cpu}/online" for cpu in board.catalogue.cpus]
    return "\n".join(["< PARAM TYPE=FILE NAME=CPU_ONLINE >", *lines])


def _gating(mask: str) -> str:
    return mask.upper().replace("_PG_MASK", "_POWER_GATING")


def _masks(board: FakeBoard) -> list[str]:
    old, new = "/sys/devices/gpu.0", "/sys/devices/platform/gpu.0"
    texts = []
    for name in fake_gpu.masks(board):
        lines = [f"<PARAM TYPE=FILE NAME={_gating(name)} >", f"{name.upper()} {old}/{name}"]
        if board.kernel != "4.9":
            lines.append(f"{name.upper()}_KNEXT {new}/{name}")
        texts.append("\n".join(lines))
    return texts


def _cpu_clocks(board: FakeBoard) -> list[str]:
    texts = []
    for name, cpu in _cpu_clock_names(board).items():
        folder = f"/{CPU}/cpu{cpu}/cpufreq"
        lines = [f"{arg}{twin} {folder}/scaling_{file}" for twin in ("", "_KNEXT") for arg, file in _FREQ_FILES]
        texts.append("\n".join([f"< PARAM TYPE=CLOCK NAME={name} >", *lines]))
    return texts


def _cpu_clock_names(board: FakeBoard) -> dict[str, int]:
    """Return the core through which each clock is set: one for each cluster, in ``-super`` files one for each core."""
    if board.presets.needs_super:
        return {f"CPU_A78_{cpu}": cpu for cpu in board.catalogue.cpus}
    return {cluster.name: cluster.cpus[0] for cluster in board.catalogue.clusters}


def _gpu(board: FakeBoard) -> list[str]:
    old, new = _gpu_folders(board)
    device = "/sys/bus/pci/devices/0000:01:00.0" if board.soc == "tegra264" else "/sys/devices/gpu.0"
    texts = [
        f"<PARAM TYPE=FILE NAME=GPU_POWER_CONTROL_{name} >\n{arg} {device}/power/control\n"
        f"{arg}_KNEXT /sys/devices/platform/gpu.0/power/control"
        for name, arg in (("ENABLE", "GPU_PWR_CNTL_EN"), ("DISABLE", "GPU_PWR_CNTL_DIS"))
    ]
    lines = [f"{arg}{twin} {place}/{f}" for twin, place in (("", old), ("_KNEXT", new)) for arg, f in _FREQ_FILES]
    return [*texts, "\n".join(["< PARAM TYPE=CLOCK NAME=GPU >", *lines])]


def _gpu_folders(board: FakeBoard) -> tuple[str, str]:
    """Return the GPU paths of the older and the newer kernel in the file; only one needs to exist."""
    node = fake_gpu.nodes(board)[0]
    if board.soc == "tegra264":
        return f"/sys/class/devfreq/{node.name}", f"/sys/class/devfreq/{node.name}"
    if board.soc != "tegra234":
        return f"/{node.folder}", f"/{node.device}/devfreq_dev"
    old = "/sys/devices/17000000.ga10b/devfreq/17000000.ga10b"
    newer = board.kernel in ("5.15", "6.8")
    return old, "/sys/devices/platform/17000000.gpu/devfreq_dev" if newer else "/sys/devices/17000000.ga10b/devfreq_dev"


def _emc(board: FakeBoard) -> str:
    lines = ["< PARAM TYPE=CLOCK NAME=EMC >", f"MAX_FREQ /{fake_emc.ISO_CAP}"]
    if fake_emc.cap_path(board) == fake_emc.CLK_CAP:
        lines.append(f"MAX_FREQ_KNEXT /{fake_emc.CLK_CAP}")
    return "\n".join(lines)


def _current_limits(board: FakeBoard) -> list[str]:
    if not any(preset.vdd_in_limits_ma for preset in board.presets.modes):
        return []
    folder = "/sys/devices/platform/c250000.i2c/i2c-7/7-0040/hwmon"  # as in nvpmodel_t194_p3668.conf
    return [f"< PARAM TYPE=HWMON NAME=VDDIN_OC_LIMIT >\nWARN {folder} curr1_max\nCRIT {folder} curr1_crit"]


def _model(board: FakeBoard, preset: Preset) -> str:
    first = 1 if board.soc == "tegra186" else 0  # TX2's files leave core 0 out
    lines = [f"< POWER_MODEL ID={preset.id} NAME={preset.name} >"]
    lines += [f"CPU_ONLINE CORE_{cpu} {int(cpu in preset.cores)}" for cpu in board.catalogue.cpus[first:]]
    lines += [f"{_gating(name)} {name.upper()}  {preset.masks.get(name, 0)}" for name in fake_gpu.masks(board)]
    lines.append("GPU_POWER_CONTROL_ENABLE GPU_PWR_CNTL_EN on")
    for name, (low, high) in _cpu_limits(board, preset).items():
        lines += [f"{name} MIN_FREQ {low or 0}", f"{name} MAX_FREQ {-1 if high is None else high}"]
    low, high = preset.gpu_khz
    lines.append(f"GPU\tMIN_FREQ {(low or 0) * 1000}")
    lines.append("GPU MAX_FREQ " + (f"-1 # {board.gpu_khz[-1] * 1000}[Hz]" if high is None else str(high * 1000)))
    lines.append("GPU_POWER_CONTROL_DISABLE GPU_PWR_CNTL_DIS auto")
    no_cap = 0 if fake_emc.cap_path(board) == fake_emc.ISO_CAP else -1
    lines.append(f"EMC MAX_FREQ {no_cap if preset.emc_max_khz is None else preset.emc_max_khz * 1000}")
    lines += [f"VDDIN_OC_LIMIT {name.upper()} {limit}" for name, limit in preset.vdd_in_limits_ma.items()]
    return "\n".join(lines)


def _cpu_limits(board: FakeBoard, preset: Preset) -> dict[str, tuple[int | None, int | None]]:
    if not board.presets.needs_super:
        return dict(preset.cpu_khz)
    by_core = {cpu: preset.cpu_khz.get(c.name) for c in board.catalogue.clusters for cpu in c.cpus}
    return {f"CPU_A78_{cpu}": limits for cpu, limits in by_core.items() if limits and cpu in preset.cores}


STATUS = "var/lib/nvpmodel/status"
_INT_MAX = 2_147_483_647  # what -1 in a configuration becomes
_REBOOT_REFUSED = 234  # observed on an Orin Nano


def install(files: KernelFiles, board: FakeBoard) -> None:
    """Write the configuration, the link to it, and the boot mode to the disk."""
    name = board.presets.conf_file
    files.put(f"etc/nvpmodel/{name}", conf_text(board))
    files.put("var/lib/nvpmodel/conf_file_path", f"/etc/nvpmodel/{name}")
    files.link("etc/nvpmodel.conf", f"etc/nvpmodel/{name}")
    _keep(files, board, next(preset for preset in board.presets.modes if preset.name == board.mode))


def _keep(files: KernelFiles, board: FakeBoard, preset: Preset) -> None:
    fan = " fmode:quiet" if board.kernel == "4.9" else ""
    files.put(STATUS, f"pmode:{preset.id:04d}{fan}", 0o644)


def choose(files: KernelFiles, board: FakeBoard, number: str) -> None:
    """Save a mode for the next boot, as nvpmodel does, without setting it."""
    _keep(files, board, next(preset for preset in board.presets.modes if str(preset.id) == number))


def active(files: KernelFiles, board: FakeBoard) -> Preset:
    """Return the mode that the status file names, the board's default where there is none."""
    try:
        number = int(files.raw(STATUS).split()[0].removeprefix("pmode:"))
    except FileNotFoundError:
        number = board.presets.default_id
    return next(preset for preset in board.presets.modes if preset.id == number)


def needs_reboot(files: KernelFiles, board: FakeBoard, preset: Preset) -> bool:
    """Whether a GPU context exists whose power-gating masks are not the mode's."""
    if not board.golden_context:
        return False
    device = fake_gpu.nodes(board)[0].device
    now = {name: files.raw(f"{device}/{name}") for name in fake_gpu.masks(board)}
    other = any(text != str(preset.masks.get(name, 0)) for name, text in now.items())
    return other or preset.masks.get("gpu_pg_mask") != active(files, board).masks.get("gpu_pg_mask")


def set_mode(files: KernelFiles, board: FakeBoard, preset: Preset) -> None:
    """Set a mode as nvpmodel does, in its order, and save it in the status file.

    A value that is not in a table is rounded to the nearest.
    """
    device = fake_gpu.nodes(board)[0].device
    for name in fake_gpu.masks(board):
        _give(files, f"{device}/{name}", preset.masks.get(name, 0))
    for cpu in preset.cores:
        _give(files, f"{CPU}/cpu{cpu}/online", 1)
    _give(files, f"{device}/power/control", "on")
    for policy in policies(files, board):
        if policy.cluster.name in preset.cpu_khz:
            low, high = (_nearest(khz, board.cpu_khz) for khz in preset.cpu_khz[policy.cluster.name])
            _give_limits(files, f"{policy.folder}/scaling_{{}}_freq", low or 0, high or board.cpu_khz[-1])
    low, high = (_nearest(khz, board.gpu_khz) for khz in preset.gpu_khz)
    folder = fake_gpu.nodes(board)[0].folder
    _give_limits(files, f"{folder}/{{}}_freq", (low or 0) * 1000, (high or board.gpu_khz[-1]) * 1000)
    _give(files, f"{device}/power/control", "auto")
    _give(files, fake_emc.cap_path(board), _emc_cap(board, preset))
    for cpu in reversed(board.catalogue.cpus):
        if cpu not in preset.cores:
            _give(files, f"{CPU}/cpu{cpu}/online", 0)
    if board.kernel != "4.9":
        for name, limit in preset.vdd_in_limits_ma.items():
            files.put(f"{fake_power.input_folder(files, board)}/curr1_{'max' if name == 'warn' else name}", limit)
    _keep(files, board, preset)


def _give_limits(files: KernelFiles, pattern: str, low: int, high: int) -> None:
    _give(files, pattern.format("min"), 0)  # so that any maximum is above it, as 4.9 demands
    _give(files, pattern.format("max"), high)
    _give(files, pattern.format("min"), low)


def _give(files: KernelFiles, path: str, value: int | str) -> None:
    """Write as nvpmodel does: a missing file or an error is only logged."""
    if not (files.root / path).exists():
        return
    answer = files.answers[files.real(path)]
    try:
        if answer.write is not None:
            answer.write(str(value))
    except OSError as error:
        if error.errno not in (errno.EBUSY, errno.EINVAL, errno.ENODEV, errno.EPERM):
            raise


def _nearest(khz: int | None, table: tuple[int, ...]) -> int | None:
    return None if khz is None else min(table, key=lambda entry: abs(entry - khz))


def _emc_cap(board: FakeBoard, preset: Preset) -> int:
    if preset.emc_max_khz is not None:
        return preset.emc_max_khz * 1000
    if fake_emc.cap_path(board) == fake_emc.ISO_CAP:
        return 0
    return _INT_MAX if board.int_max_caps else board.emc_khz[-1] * 1000


def command(files: KernelFiles, board: FakeBoard, number: str) -> int:
    """Return the exit code of ``nvpmodel -m NUMBER`` with nobody at its prompt."""
    chosen = next((preset for preset in board.presets.modes if str(preset.id) == number), None)
    if chosen is None or files.user != "root":
        return 255
    if board.container:  # it warns, and saves the mode
        _keep(files, board, chosen)
        return 0
    if needs_reboot(files, board, chosen):
        return _REBOOT_REFUSED
    set_mode(files, board, chosen)
    return 0
