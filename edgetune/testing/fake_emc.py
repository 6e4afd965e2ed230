"""Fake memory clock: caps, locks and firmware that ignores invalid rates, by board generation.

Sources: NVIDIA's nvpmodel drivers for both caps; drivers/firmware/tegra/bpmp-debugfs.c of Linux, in which a refused
write succeeds; NVIDIA's jetson_clocks for lock and rate. That the newer cap rounds down is not verified.
"""

import errno
import os
from functools import partial

from edgetune.devices.capabilities import Clock
from edgetune.testing.fake_cpu import number
from edgetune.testing.fake_description import FakeBoard
from edgetune.testing.fake_files import DEBUGFS, Answer, KernelFiles, refuse

ISO_CAP = "sys/kernel/nvpmodel_emc_cap/emc_iso_cap"
CLK_CAP = "sys/kernel/nvpmodel_clk_cap/emc"
_BPMP = f"{DEBUGFS}/bpmp/debug"
_EMC = f"{_BPMP}/clk/emc"
_T210 = f"{DEBUGFS}/clk/override.emc"
_BWMGR = "sys/devices/platform/bwmgr/devfreq/bwmgr"
_DRIFT_NS = 300_000_000


def cap_path(board: FakeBoard) -> str:
    """Return the file that caps the memory clock on this release."""
    return CLK_CAP if board.kernel in ("5.15", "6.8") else ISO_CAP


def boot(files: KernelFiles, board: FakeBoard) -> None:
    """Create the files in their state after boot."""
    low, high = (khz * 1000 for khz in (board.emc_khz[0], board.emc_khz[-1]))
    if cap_path(board) == CLK_CAP:
        files.put(CLK_CAP, high, 0o664)
    else:
        files.put(ISO_CAP, 0, 0o660)
    os.makedirs(files.root / DEBUGFS, exist_ok=True)
    if board.debugfs != "unmounted":
        _put_t210(files, low, high) if board.catalogue.emc_interface == "t210" else _put_bpmp(files, board, low)
    if board.kernel == "6.8":
        _put_bwmgr(files, board, low, high)


def _put_t210(files: KernelFiles, low: int, high: int) -> None:
    files.put(f"{_T210}/clk_rate", low, 0o444)
    files.put(f"{_T210}/clk_state", 0)
    files.put(f"{_T210}/clk_update_rate", 0)
    files.put(f"{DEBUGFS}/tegra_bwmgr/emc_min_rate", low, 0o444)
    files.put(f"{DEBUGFS}/tegra_bwmgr/emc_max_rate", high, 0o444)


def _put_bpmp(files: KernelFiles, board: FakeBoard, low: int) -> None:
    files.put(f"{_EMC}/rate", low, 0o600)
    files.put(f"{_EMC}/mrq_rate_locked", 0, 0o600)
    files.put(f"{_EMC}/state", 1, 0o600)
    files.put(f"{_BPMP}/bwmgr/bwmgr_halt", 0, 0o600)
    if board.soc == "tegra264":
        rows = "".join(f"\n{index} {khz}000 {600 + 25 * index}" for index, khz in enumerate(board.emc_khz))
        files.put(f"{_EMC}/dvfs", f"# rate uv{rows}", 0o400)  # only "rates in column 2" is documented
    else:
        files.put(f"{_BPMP}/emc/possible_rates", " ".join(map(str, board.emc_khz)) + " (kHz)", 0o400)


def _put_bwmgr(files: KernelFiles, board: FakeBoard, low: int, high: int) -> None:
    files.put(f"{_BWMGR}/cur_freq", low, 0o444)
    files.link("sys/class/devfreq/bwmgr", _BWMGR)
    if board.soc == "tegra264":
        files.put(f"{_BWMGR}/min_freq", low)
        files.put(f"{_BWMGR}/max_freq", high)


def answers(files: KernelFiles, board: FakeBoard, clock: Clock) -> dict[str, Answer]:
    """Return the ``Answer`` of each file, by path."""

    def rate() -> str:
        return str(current_hz(files, board, clock))

    found = {
        ISO_CAP: Answer(write=lambda value: files.put(ISO_CAP, number(value))),
        CLK_CAP: Answer(write=partial(_clk_cap, files, board)),
        f"{_BWMGR}/cur_freq": Answer(read=rate),
        f"{_BWMGR}/min_freq": Answer(write=partial(_bwmgr, files, board, "min")),
        f"{_BWMGR}/max_freq": Answer(write=partial(_bwmgr, files, board, "max")),
        f"{_T210}/clk_rate": Answer(read=rate),
        f"{_T210}/clk_update_rate": Answer(read=rate),  # what was written last is not shown; not verified
        f"{_EMC}/rate": Answer(read=rate, write=partial(_set_rate, files, board, clock)),
    }
    if board.debugfs == "locked":
        found |= {
            path: Answer(lambda: refuse(errno.EPERM), lambda _: refuse(errno.EPERM))
            for path in files.files_below(DEBUGFS)
        }
    return found


def _clk_cap(files: KernelFiles, board: FakeBoard, value: str) -> None:
    try:
        hz = int(value, 0)  # kstrtoul with base 0
    except ValueError:
        refuse(errno.EINVAL, CLK_CAP)
    if hz < 0 or board.cap_refused:
        refuse(errno.EINVAL, CLK_CAP)
    files.put(CLK_CAP, _round_down(board, hz))


def _round_down(board: FakeBoard, hz: int) -> int:
    """Round as ``clk_round_rate`` presumably does: down, and 0 to the lowest rate; not verified."""
    return max((khz * 1000 for khz in board.emc_khz if khz * 1000 <= hz), default=board.emc_khz[0] * 1000)


def _bwmgr(files: KernelFiles, board: FakeBoard, end: str, value: str) -> None:
    first, last = board.emc_khz[0] * 1000, board.emc_khz[-1] * 1000
    files.put(f"{_BWMGR}/{end}_freq", min(max(number(value) or (first if end == "min" else last), first), last))


def _set_rate(files: KernelFiles, board: FakeBoard, clock: Clock, value: str) -> None:
    """Accept a rate in the table, within the cap and under lock; else succeed without effect."""
    if not value.isdecimal() or board.bpmp_ignores or files.raw(f"{_EMC}/mrq_rate_locked") != "1":
        return
    hz = int(value)
    if hz % 1000 == 0 and hz // 1000 in board.emc_khz and hz <= ceiling_hz(files, board):
        files.hide("emc.rate", hz)
        files.hide("emc.since", clock.now_ns())


def ceiling_hz(files: KernelFiles, board: FakeBoard) -> int:
    """Return the highest rate that the caps allow."""
    limits = [board.emc_khz[-1] * 1000]
    for path in (cap_path(board), f"{_BWMGR}/max_freq"):
        if (files.root / path).exists():
            limits.append(int(files.raw(path)) or limits[0])
    return min(limits)


def current_hz(files: KernelFiles, board: FakeBoard, clock: Clock) -> int:
    """Return the present rate: locked, or the highest allowed while the GPU works, else the lowest."""
    ceiling = _round_down(board, ceiling_hz(files, board))
    if board.catalogue.emc_interface == "t210":
        if files.raw(f"{_T210}/clk_state") == "1" and int(files.raw(f"{_T210}/clk_update_rate")):
            return min(_round_down(board, int(files.raw(f"{_T210}/clk_update_rate"))), ceiling)
    elif board.debugfs != "unmounted" and files.raw(f"{_EMC}/mrq_rate_locked") == "1" and files.hidden("emc.rate"):
        locked = int(files.hidden("emc.rate"))
        if board.emc_drifts and clock.now_ns() - int(files.hidden("emc.since")) > _DRIFT_NS:
            locked = board.emc_khz[0] * 1000 if locked > board.emc_khz[0] * 1000 else board.emc_khz[-1] * 1000
        return min(locked, ceiling)
    busy = float(files.hidden("busy.gpu", "0")) > 0
    lowest = board.emc_khz[0] * 1000
    if (files.root / _BWMGR / "min_freq").exists():
        lowest = min(int(files.raw(f"{_BWMGR}/min_freq")), ceiling)
    return ceiling if busy else lowest
