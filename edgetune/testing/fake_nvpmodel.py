"""Fake nvpmodel: its configuration file in NVIDIA's grammar, its status file, and what setting a mode does."""

from __future__ import annotations

import errno

from edgetune.devices.jetson.catalog import Preset
from edgetune.testing import fake_emc, fake_gpu
from edgetune.testing.fake_description import FakeBoard
from edgetune.testing.fake_files import KernelFiles

STATUS = "var/lib/nvpmodel/status"
_INT_MAX = 2_147_483_647
_CPU = "sys/devices/system/cpu"


def install(files: KernelFiles, board: FakeBoard) -> None:
    """Put the configuration file, the link to it and the mode to boot with on the disk."""
    name = board.presets.conf_file
    files.put(f"etc/nvpmodel/{name}", board.nvpmodel_conf or conf_text(board))
    files.link("etc/nvpmodel.conf", f"etc/nvpmodel/{name}")
    chosen = next(preset for preset in board.presets.modes if preset.name == board.mode)
    _keep(files, board, chosen)


def _keep(files: KernelFiles, board: FakeBoard, preset: Preset) -> None:
    fan = " fmode:quiet" if board.kernel == "4.9" else ""
    files.put(STATUS, f"pmode:{preset.id:04d}{fan}", 0o644)


def active(files: KernelFiles, board: FakeBoard) -> Preset:
    """Return the mode that the status file names."""
    number = int(files.raw(STATUS).split()[0].removeprefix("pmode:"))
    return next(preset for preset in board.presets.modes if preset.id == number)


def needs_reboot(files: KernelFiles, board: FakeBoard, preset: Preset) -> bool:
    """Whether the mode has other power-gating masks than the GPU context that exists."""
    if not board.golden_context:
        return False
    device = fake_gpu.nodes(board)[0].device
    return any(
        files.raw(f"{device}/{name}") != str(preset.masks.get(name, 0)) for name in fake_gpu.masks(board)
    ) or preset.masks.get("gpu_pg_mask") != active(files, board).masks.get("gpu_pg_mask")


def set_mode(files: KernelFiles, board: FakeBoard, preset: Preset) -> None:
    """Set a mode as nvpmodel does: masks, cores, CPU, GPU and memory limits, then the status file.

    Values that a table does not have end at the nearest one that it has.
    """
    device = fake_gpu.nodes(board)[0].device

    def give(path: str, value: int | str) -> None:
        try:
            answer = files.answers.get(files.real(path))
            if answer is not None and answer.write is not None and (files.root / path).exists():
                answer.write(str(value))
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.EINVAL, errno.ENODEV):
                raise

    for name in fake_gpu.masks(board):
        give(f"{device}/{name}", preset.masks.get(name, 0))
    for cpu in board.catalogue.cpus:
        if cpu in preset.cores:
            give(f"{_CPU}/cpu{cpu}/online", 1)
    give(f"{device}/power/control", "on")
    for cluster in board.catalogue.clusters:
        if cluster.name in preset.cpu_khz:
            folder = f"{_CPU}/cpufreq/{cluster.policy}"
            low, high = (_nearest(khz, board.cpu_khz) for khz in preset.cpu_khz[cluster.name])
            give(f"{folder}/scaling_min_freq", board.cpu_khz[0])
            give(f"{folder}/scaling_max_freq", high or board.cpu_khz[-1])
            give(f"{folder}/scaling_min_freq", low or board.cpu_khz[0])
    for cpu in reversed(board.catalogue.cpus):
        if cpu not in preset.cores:
            give(f"{_CPU}/cpu{cpu}/online", 0)
    node = fake_gpu.nodes(board)[0]
    low, high = (_nearest(khz, board.gpu_khz) for khz in preset.gpu_khz)
    give(f"{node.folder}/min_freq", 0)
    give(f"{node.folder}/max_freq", (high or board.gpu_khz[-1]) * 1000)
    give(f"{node.folder}/min_freq", (low or 0) * 1000)
    give(f"{device}/power/control", "auto")
    give(fake_emc.cap_path(board), _emc_cap(board, preset))
    _keep(files, board, preset)


def _nearest(khz: int | None, table: tuple[int, ...]) -> int | None:
    return None if khz is None else min(table, key=lambda entry: abs(entry - khz))


def _emc_cap(board: FakeBoard, preset: Preset) -> int:
    if preset.emc_max_khz is not None:
        return preset.emc_max_khz * 1000
    if fake_emc.cap_path(board) == fake_emc.ISO_CAP:
        return 0
    return _INT_MAX if board.int_max_caps else board.emc_khz[-1] * 1000


def conf_text(board: FakeBoard) -> str:
    """Return the board's configuration file, odd spaces, tabs and comments included."""
    blocks = ["#\n# Made by edgetune's fake board in the grammar of NVIDIA's files; not one of them.\n#"]
    blocks += [_core_param(board), *_mask_params(board), *_cpu_params(board), _gpu_params(board), _emc_param(board)]
    if any(preset.vdd_in_limits_ma for preset in board.presets.modes):
        blocks.append(
            "< PARAM TYPE=HWMON NAME=VDDIN_OC_LIMIT >\n"
            "WARN /sys/devices/platform/c250000.i2c/i2c-7/7-0040/hwmon curr1_max\n"
            "CRIT /sys/devices/platform/c250000.i2c/i2c-7/7-0040/hwmon curr1_crit"
        )
    blocks.append("###########################\n#                         #\n# POWER_MODEL DEFINITIONS #\n#                         #\n###########################")
    blocks += [_model(board, preset) for preset in board.presets.modes]
    blocks.append(f"# mandatory section to configure the default mode\n< PM_CONFIG DEFAULT={board.presets.default_id} >")
    if board.kernel != "4.9":
        blocks.append("< FAN_CONFIG DEFAULT=quiet >")
    return "\n\n".join(blocks)


def _core_param(board: FakeBoard) -> str:
    lines = [f"CORE_{cpu} /{_CPU}/cpu{cpu}/online" for cpu in board.catalogue.cpus]
    return "\n".join(["< PARAM TYPE=FILE NAME=CPU_ONLINE >", *lines])


def _mask_params(board: FakeBoard) -> list[str]:
    # Without the space after "<", as some files by NVIDIA have it.
    return [
        f"<PARAM TYPE=FILE NAME={name.upper().replace('_PG_MASK', '_POWER_GATING')} >\n"
        f"{name.upper()} /sys/devices/{'' if board.kernel == '4.9' else 'platform/'}gpu.0/{name}"
        for name in fake_gpu.masks(board)
    ]


def _cpu_params(board: FakeBoard) -> list[str]:
    texts = []
    for cluster in board.catalogue.clusters:
        folder = f"/{_CPU}/cpu{cluster.cpus[0]}/cpufreq"
        texts.append(
            f"< PARAM TYPE=CLOCK NAME={cluster.name} >\nFREQ_TABLE {folder}/scaling_available_frequencies\n"
            f"MAX_FREQ {folder}/scaling_max_freq\nMIN_FREQ {folder}/scaling_min_freq\n"
            f"FREQ_TABLE_KNEXT {folder}/scaling_available_frequencies\n"
            f"MAX_FREQ_KNEXT {folder}/scaling_max_freq\nMIN_FREQ_KNEXT {folder}/scaling_min_freq"
        )
    return texts


def _gpu_params(board: FakeBoard) -> str:
    node = fake_gpu.nodes(board)[0]
    next_folder = "/sys/devices/platform/17000000.gpu/devfreq_dev" if board.soc == "tegra234" else f"/{node.folder}"
    old_folder = f"/{node.folder}"
    if board.soc == "tegra234":
        old_folder = "/sys/devices/17000000.ga10b/devfreq/17000000.ga10b"
        if board.kernel == "5.10":
            next_folder = "/sys/devices/17000000.ga10b/devfreq_dev"
    device = f"/{node.device}" if board.soc == "tegra264" else "/sys/devices/gpu.0"
    control = (
        f"<PARAM TYPE=FILE NAME=GPU_POWER_CONTROL_ENABLE >\nGPU_PWR_CNTL_EN {device}/power/control\n"
        f"GPU_PWR_CNTL_EN_KNEXT /sys/devices/platform/gpu.0/power/control\n\n"
        f"<PARAM TYPE=FILE NAME=GPU_POWER_CONTROL_DISABLE >\nGPU_PWR_CNTL_DIS {device}/power/control\n"
        f"GPU_PWR_CNTL_DIS_KNEXT /sys/devices/platform/gpu.0/power/control\n\n"
    )
    lines = [
        f"{name}{suffix} {folder}/{file}"
        for suffix, folder in (("", old_folder), ("_KNEXT", next_folder))
        for name, file in (("FREQ_TABLE", "available_frequencies"), ("MAX_FREQ", "max_freq"), ("MIN_FREQ", "min_freq"))
    ]
    return control + "\n".join(["< PARAM TYPE=CLOCK NAME=GPU >", *lines])


def _emc_param(board: FakeBoard) -> str:
    lines = ["< PARAM TYPE=CLOCK NAME=EMC >", f"MAX_FREQ /{fake_emc.ISO_CAP}"]
    if board.kernel in ("5.15", "6.8"):
        lines.append(f"MAX_FREQ_KNEXT /{fake_emc.CLK_CAP}")
    return "\n".join(lines)


def _model(board: FakeBoard, preset: Preset) -> str:
    first = 1 if board.soc == "tegra186" else 0  # TX2's files leave core 0 out
    lines = [f"< POWER_MODEL ID={preset.id} NAME={preset.name} >"]
    lines += [f"CPU_ONLINE CORE_{cpu} {int(cpu in preset.cores)}" for cpu in board.catalogue.cpus[first:]]
    for name in fake_gpu.masks(board):
        lines.append(f"{name.upper().replace('_PG_MASK', '_POWER_GATING')} {name.upper()}  {preset.masks.get(name, 0)}")
    lines.append("GPU_POWER_CONTROL_ENABLE GPU_PWR_CNTL_EN on")
    for name, (low, high) in preset.cpu_khz.items():
        lines.append(f"{name} MIN_FREQ {low or 0}")
        lines.append(f"{name} MAX_FREQ {-1 if high is None else high}")
    low, high = preset.gpu_khz
    lines.append(f"GPU\tMIN_FREQ {(low or 0) * 1000}")
    lines.append("GPU MAX_FREQ " + (f"-1 # {board.gpu_khz[-1] * 1000}[Hz]" if high is None else str(high * 1000)))
    lines.append("GPU_POWER_CONTROL_DISABLE GPU_PWR_CNTL_DIS auto")
    uncapped = 0 if fake_emc.cap_path(board) == fake_emc.ISO_CAP else -1
    lines.append(f"EMC MAX_FREQ {uncapped if preset.emc_max_khz is None else preset.emc_max_khz * 1000}")
    lines += [f"VDDIN_OC_LIMIT {name.upper()} {limit}" for name, limit in preset.vdd_in_limits_ma.items()]
    return "\n".join(lines)
