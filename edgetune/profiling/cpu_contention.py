"""Whether other processes used the CPUs while a point was measured."""

from __future__ import annotations

from collections.abc import Iterable

from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import ProfileRow
from edgetune.devices.cpu_load import BUSY_SHARE, CpuTimes, others_share
from edgetune.devices.device import Device


class ContentionWatch:
    """Compares the accounts of the CPUs with what they were; made when the point's time begins.

    Args:
        device: Where it is measured; only of this machine is anything known.
        mode: The mode asked for, whose cores the workload is given.
    """

    def __init__(self, device: Device, mode: Mode) -> None:
        self._load = device.load
        self._cores = mode.cpu_cores
        self._looks: list[CpuTimes | None] = []
        self.begin()

    def begin(self) -> None:
        """Look again: what is measured begins now."""
        self._looks.append(None if self._load is None else self._load.read())

    def share(self) -> float | None:
        """Return the share of the workload's CPUs that others used since the last look, of a short run since the first.

        ``None`` where nothing is known, or the time was too short to tell.
        """
        after = None if self._load is None else self._load.read()
        if self._load is None or after is None:
            return None
        cpus = self._load.cpus(self._cores)
        shares = (others_share(before, after, cpus) for before in reversed(self._looks) if before is not None)
        return next((share for share in shares if share is not None), None)


def contention_warning(rows: Iterable[ProfileRow]) -> tuple[DataWarning, ...]:
    """Return the warning of the rows that others disturbed; none where they did not."""
    shares = [share for row in rows if (share := row.others_cpu_share or 0.0) >= BUSY_SHARE]
    if not shares:
        return ()
    advice = "other processes used the CPUs: figures are of a busy machine; stop them and measure again"
    return (DataWarning("points-busy", advice, {"points": len(shares), "others_cpu_share_max": max(shares)}),)


def describe_contention(share: float | None) -> str | None:
    """Return what to say of a point that others disturbed; ``None`` where they did not."""
    if share is None or share < BUSY_SHARE:
        return None
    return f"other processes used {share:.0%} of its CPUs while it was measured"
