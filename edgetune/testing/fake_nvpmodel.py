"""Fake nvpmodel: its status file, what setting a mode does, and the command with its prompt.

Sources: the order of writes in NVIDIA's configuration files; texts and exit codes as captured on boards.
"""

from __future__ import annotations

import errno
import sys

from edgetune.devices.jetson.catalog import Preset
from edgetune.testing import fake_emc, fake_gpu, fake_power
from edgetune.testing.fake_cpu import CPU, policies
from edgetune.testing.fake_description import FakeBoard
from edgetune.testing.fake_files import KernelFiles
from edgetune.testing.fake_nvpmodel_conf import conf_text

STATUS = "var/lib/nvpmodel/status"
COMMAND = "usr/sbin/nvpmodel"
_INT_MAX = 2_147_483_647  # what -1 in a configuration becomes
_REBOOT_REFUSED = 234  # seen on an Orin Nano


def install(files: KernelFiles, board: FakeBoard) -> None:
    """Put the configuration, the link to it, the mode to boot with and the command on the disk."""
    name = board.presets.conf_file
    files.put(f"etc/nvpmodel/{name}", board.nvpmodel_conf or conf_text(board))
    files.put("var/lib/nvpmodel/conf_file_path", f"/etc/nvpmodel/{name}")
    if board.conf_link:
        files.link("etc/nvpmodel.conf", f"etc/nvpmodel/{name}")
    _keep(files, board, next(preset for preset in board.presets.modes if preset.name == board.mode))
    script = f'#!/bin/sh\nexec {sys.executable} -m edgetune.testing.fake_nvpmodel_command "$(dirname "$0")/../.." "$@"'
    files.put(COMMAND, script, 0o755)


def _keep(files: KernelFiles, board: FakeBoard, preset: Preset) -> None:
    fan = " fmode:quiet" if board.kernel == "4.9" else ""
    files.put(STATUS, f"pmode:{preset.id:04d}{fan}", 0o644)


def choose(files: KernelFiles, board: FakeBoard, number: str) -> None:
    """Note a mode for the next boot, as nvpmodel does, without setting it."""
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
    """Set a mode as nvpmodel does, in its order, and keep it in the status file.

    Values that a table does not have end at the nearest one that it has.
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
    """Write as nvpmodel does: a file that is missing or refuses is a line in its log, no more."""
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


def command(files: KernelFiles, board: FakeBoard, arguments: list[str], typed: str = "") -> tuple[int, str]:
    """Return exit code and output of ``nvpmodel``: ``-q``, or ``-m ID`` with what was typed at its prompt."""
    if arguments[:1] == ["-q"]:
        preset = active(files, board)
        warning = "NVPM WARN: fan mode is not set!\n" if board.kernel != "4.9" else "NV Fan Mode:quiet\n"
        return 0, f"{warning}NV Power Mode: {preset.name}\n{preset.id}\n"
    chosen = [preset for preset in board.presets.modes if arguments == ["-m", str(preset.id)]]
    if not chosen:
        return 255, "NVPM ERROR: invalid parameter\n"
    if files.user != "root":
        return 255, "NVPM ERROR: cannot open the power mode files: Permission denied\n"
    if board.container:
        _keep(files, board, chosen[0])
        return 0, "NVPM WARN: Running in chroot, ignoring request\n"
    if needs_reboot(files, board, chosen[0]):
        return _ask_reboot(files, board, chosen[0], typed)
    set_mode(files, board, chosen[0])
    return 0, ""


def _ask_reboot(files: KernelFiles, board: FakeBoard, preset: Preset, typed: str) -> tuple[int, str]:
    text = (
        "NVPM WARN: Golden image context is already created\n"
        f"NVPM WARN: Reboot required for changing to this power mode: {preset.id}\n"
        "NVPM WARN: DO YOU WANT TO REBOOT NOW? enter YES/yes to confirm:\n"
    )
    if typed.strip() not in ("YES", "yes"):
        refusal = "NVPM ERROR: bad input!\nNVPM ERROR: optMask is 1, no request for power mode\n"
        return _REBOOT_REFUSED, text + refusal
    _keep(files, board, preset)
    files.power_cut()
    return 0, text
