"""Fake CPU: cpufreq policies, hotplug and idle states, with the errors of each kernel.

Sources: drivers/cpufreq/cpufreq.c of Linux 4.9 (EINVAL where the limits cross) and of 5.5 and later (limits are kept as
requests, and the maximum wins); NVIDIA/skills, jetson-customize-nvpmodel (core 0 stays); board reports for the files of
an offline cluster, which differ.
"""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from edgetune.devices.jetson.catalog import Cluster
from edgetune.testing.fake_description import FakeBoard
from edgetune.testing.fake_files import HIDDEN, Answer, KernelFiles, refuse

CPU = "sys/devices/system/cpu"
_PARKED = f"{HIDDEN}/parked"
_LIMITS = ("min", "max")
_CONSTANT = (
    "related_cpus", "scaling_available_frequencies", "scaling_governor", "cpuinfo_min_freq", "cpuinfo_max_freq",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FakeCpufreqPolicy:
    """The cpufreq policy of a cluster."""

    files: KernelFiles
    board: FakeBoard
    cluster: Cluster

    @property
    def folder(self) -> str:
        """The folder of its files."""
        return f"{CPU}/cpufreq/{self.cluster.policy}"

    @property
    def cores_on(self) -> list[int]:
        """Its cores that are online."""
        return [cpu for cpu in self.cluster.cpus if is_on(self.files, cpu)]

    def boot(self) -> None:
        """Create its files: no limits, and the governor that nvpower.sh sets."""
        low, high = self.board.cpu_khz[0], self.board.cpu_khz[-1]
        governor = "interactive" if self.board.soc == "tegra210" else "schedutil"
        cores = " ".join(map(str, self.cluster.cpus))
        listed = "".join(f"{khz} " for khz in self.board.cpu_khz)  # the kernel ends the list with a space
        self._put("related_cpus", cores, 0o444)
        self._put("scaling_available_frequencies", listed, 0o444)
        self._put("scaling_governor", governor, 0o644)
        self._put("cpuinfo_min_freq", low, 0o444)
        self._put("cpuinfo_max_freq", high, 0o444)
        self._put("cpuinfo_cur_freq", low, 0o400)
        self._put("scaling_cur_freq", low, 0o444)
        self.show_limits(low, high)

    def answers(self) -> dict[str, Answer]:
        """Return the ``Answer`` of each of its files, by path."""
        reads: dict[str, Callable[[], str]] = {
            "scaling_cur_freq": lambda: str(self.clock_khz()),
            "cpuinfo_cur_freq": lambda: str(self.clock_khz() // (2 if self.files.hidden("throttled") == "1" else 1)),
        }
        found = {name: Answer(partial(self._read, name)) for name in _CONSTANT}
        found |= {name: Answer(partial(self._read, name, read)) for name, read in reads.items()}
        for end in _LIMITS:
            name = f"scaling_{end}_freq"
            found[name] = Answer(partial(self._read, name), partial(self._write_limit, end))
        return {f"{self.folder}/{name}": answer for name, answer in found.items()}

    def clock_khz(self) -> int:
        """Return the clock that the governor requests now: the highest allowed under load, else the lowest."""
        low, high = (int(self._raw(f"scaling_{end}_freq")) for end in _LIMITS)
        wanted = high if float(self.files.hidden("busy.cpu", "0")) > 0 else low
        return max((khz for khz in self.board.cpu_khz if khz <= wanted), default=self.board.cpu_khz[0])

    def show_limits(self, low: int, high: int) -> None:
        """Keep the request and show its effect: within the hardware's range, and the maximum wins."""
        first, last = self.board.cpu_khz[0], self.board.cpu_khz[-1]
        self.files.hide(f"{self.cluster.policy}.min", low)
        self.files.hide(f"{self.cluster.policy}.max", high)
        highest = min(max(high, first), last)
        self._put("scaling_min_freq", min(max(low, first), highest), 0o644)
        self._put("scaling_max_freq", highest, 0o644)

    def park(self) -> None:
        """Update the files after its last core went offline; some releases remove them."""
        if self.board.offline_policy == "missing":
            os.makedirs(self.files.root / _PARKED, exist_ok=True)
            os.rename(self.files.root / self.folder, self.files.root / _PARKED / self.cluster.policy)

    def unpark(self) -> None:
        """Update the files after its first core came online."""
        parked = self.files.root / _PARKED / self.cluster.policy
        if parked.exists():
            os.rename(parked, self.files.root / self.folder)
        if self.board.reonline == "boot":
            self.show_limits(self.board.cpu_khz[0], self.board.cpu_khz[-1])

    def _put(self, name: str, text: str | int, mode: int) -> None:
        self.files.put(f"{self.folder}/{name}", text, mode)

    def _raw(self, name: str) -> str:
        return self.files.raw(f"{self.folder}/{name}")

    def _read(self, name: str, read: Callable[[], str] | None = None) -> str:
        if not self.cores_on and self.board.offline_policy == "ebusy":
            refuse(errno.EBUSY, self.folder)
        return self._raw(name) if read is None else read()

    def _write_limit(self, end: str, value: str) -> None:
        """Write a limit: 4.9 refuses min > max, later kernels keep the request."""
        if not self.cores_on:
            refuse(errno.EBUSY, self.folder)
        khz = number(value)
        if self.board.qos:
            low, high = (int(self.files.hidden(f"{self.cluster.policy}.{name}")) for name in _LIMITS)
        else:
            low, high = (int(self._raw(f"scaling_{name}_freq")) for name in _LIMITS)
        low, high = (khz, high) if end == "min" else (low, khz)
        if low > high and not self.board.qos:
            refuse(errno.EINVAL, f"{self.folder}/scaling_{end}_freq")
        self.show_limits(low, high)


def policies(files: KernelFiles, board: FakeBoard) -> list[FakeCpufreqPolicy]:
    """Return the policies, one for each cluster."""
    return [FakeCpufreqPolicy(files, board, cluster) for cluster in board.catalogue.clusters]


def boot(files: KernelFiles, board: FakeBoard) -> None:
    """Create the files in their state after boot: all cores online, no limits."""
    for name in ("present", "online"):
        files.put(f"{CPU}/{name}", ",".join(map(str, board.catalogue.cpus)), 0o444)
    for policy in policies(files, board):
        policy.boot()
        for cpu in policy.cluster.cpus:
            files.put(f"{CPU}/cpu{cpu}/online", 1, 0o644)
            files.link(f"{CPU}/cpu{cpu}/cpufreq", policy.folder)


def answers(files: KernelFiles, board: FakeBoard) -> dict[str, Answer]:
    """Return the ``Answer`` of each file, by path."""
    cpus = board.catalogue.cpus
    found = {f"{CPU}/online": Answer(lambda: ",".join(str(cpu) for cpu in cpus if is_on(files, cpu)))}
    for policy in policies(files, board):
        found |= policy.answers()
        for cpu in policy.cluster.cpus:
            found[f"{CPU}/cpu{cpu}/online"] = Answer(write=partial(_switch, policy, cpu))
    return found


def number(value: str) -> int:
    """Parse a written number, or raise the kernel's error."""
    if not value.isdecimal():
        refuse(errno.EINVAL)
    return int(value)


def is_on(files: KernelFiles, cpu: int) -> bool:
    """Whether a core is online; core 0 always is."""
    return cpu == 0 or files.raw(f"{CPU}/cpu{cpu}/online") == "1"


def _switch(policy: FakeCpufreqPolicy, cpu: int, value: str) -> None:
    wanted = number(value)
    if wanted not in (0, 1):
        refuse(errno.EINVAL)
    if wanted == is_on(policy.files, cpu):
        return
    if cpu == 0:
        refuse(errno.EPERM)  # that it is refused is documented, with which error is not
    if cpu in policy.board.stuck_cores:
        refuse(errno.EBUSY)
    before = policy.cores_on
    policy.files.put(f"{CPU}/cpu{cpu}/online", wanted)
    if not before:
        policy.unpark()
    elif not policy.cores_on:
        policy.park()
