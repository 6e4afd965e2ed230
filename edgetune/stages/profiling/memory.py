r"""The memory of a point while it is measured: its processes', the machine's, and whether the machine swapped.

    resident      ____/~~~~\________/~~~~~~\____      its highest level: memory_peak_bytes
    available     ~~~~\____/~~~~~~~~\______/~~~~      its lowest level:  memory_available_min_bytes

On a board, CPU and GPU share one memory. A point that pages back from swap measures storage: it is marked.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from edgetune.devices.device import Device, HasProcesses, Runner
from edgetune.devices.memory import MachineMemory
from edgetune.processes.memory import held_bytes, major_faults, swap_bytes

_POLL_INTERVAL_S = 0.2
"""A reading costs about 0.1 ms, and of several processes about a millisecond for each GB that they hold."""


class MemoryWatch:
    """A context in which a runner's memory is watched from a thread.

    Args:
        device: Simulated ones have no memory to watch.
        runner: One with processes is watched, and the machine with it.
    """

    def __init__(self, device: Device, runner: Runner) -> None:
        self._memory = device.memory
        self._runner = runner if isinstance(runner, HasProcesses) else None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._peak_bytes: int | None = None
        self._available_bytes: int | None = None
        self._swapped_in_bytes: int | None = None
        self._faults: dict[int, tuple[int, int]] = {}
        self._own_swap = False

    def __enter__(self) -> MemoryWatch:
        if self._memory is not None and self._runner is not None:
            self._swapped_in_bytes = self._memory.swapped_in_bytes()
            self._thread = threading.Thread(target=self._watch, args=(self._memory, self._runner), daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None and self._memory is not None:
            self._ended.set()
            self._thread.join()
            now, before = self._memory.swapped_in_bytes(), self._swapped_in_bytes
            self._swapped_in_bytes = None if now is None or before is None else now - before

    def columns(self, own_peak_bytes: int | None = None) -> dict[str, Any]:
        """Return the columns of the row, after the end.

        Args:
            own_peak_bytes: The peak of a process that ended in between, by its own account.
        """
        if self._thread is None:
            return {}
        peaks = [peak for peak in (self._peak_bytes, own_peak_bytes) if peak is not None]
        return {
            "memory_peak_bytes": max(peaks, default=None),
            "memory_available_min_bytes": self._available_bytes,
            "swap_in_bytes": self._swapped_in_bytes,
        }

    def swapped(self) -> bool:
        """Return whether the machine read from swap while the workload waited for pages, some of which were there.

        A workload without memory in swap waits for pages of files.
        """
        waited = any(last > first for first, last in self._faults.values())
        return bool(self._swapped_in_bytes) and waited and self._own_swap

    def _watch(self, memory: MachineMemory, runner: HasProcesses) -> None:
        ended = False
        while not ended:
            self._read(memory, runner.processes())
            ended = self._ended.wait(_POLL_INTERVAL_S)
        self._read(memory, runner.processes())

    def _read(self, memory: MachineMemory, processes: Sequence[int]) -> None:
        now = {pid: major_faults(pid) for pid in processes}
        pids = [pid for pid in now if pid in self._faults]  # one just forked is still a copy of its parent
        for pid, faults in now.items():
            first, _ = self._faults.get(pid, (faults, faults))
            self._faults[pid] = (first, faults)
        self._own_swap = self._own_swap or any(map(swap_bytes, processes))
        self._peak_bytes = max(held_bytes(pids) or 0, self._peak_bytes or 0) or None
        available = memory.available_bytes()
        if available is not None:
            self._available_bytes = min(available, self._available_bytes or available)
