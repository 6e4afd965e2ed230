"""Fake CPU: cpufreq policies, hotplug and idle states, with the refusals of each kernel."""

from __future__ import annotations

import errno
import os

from edgetune.devices.jetson.catalog import Cluster
from edgetune.testing.fake_description import FakeBoard
from edgetune.testing.fake_files import Answer, KernelFiles, refuse

_CPU = "sys/devices/system/cpu"
_PARKED = ".fake-kernel/parked"


def boot(files: KernelFiles, board: FakeBoard) -> None:
    """Make the files as a kernel has them before anything was set: all cores online, no limits."""
    entry = board.catalogue
    for name in ("possible", "present", "online", "offline"):
        files.put(f"{_CPU}/{name}", _ranges(list(entry.cpus)), 0o444)
    for cluster in entry.clusters:
        _put_policy(files, board, cluster)
        for cpu in cluster.cpus:
            if cpu or board.cpu0_file:
                files.put(f"{_CPU}/cpu{cpu}/online", 1)
            files.link(f"{_CPU}/cpu{cpu}/cpufreq", _policy(cluster))
            for state, name in enumerate(entry.idle_states):
                files.put(f"{_CPU}/cpu{cpu}/cpuidle/state{state}/name", name, 0o444)
                files.put(f"{_CPU}/cpu{cpu}/cpuidle/state{state}/disable", 0)


def _policy(cluster: Cluster) -> str:
    return f"{_CPU}/cpufreq/{cluster.policy}"


def _put_policy(files: KernelFiles, board: FakeBoard, cluster: Cluster) -> None:
    folder, low, high = _policy(cluster), board.cpu_khz[0], board.cpu_khz[-1]
    governor = "schedutil"
    files.put(f"{folder}/related_cpus", " ".join(map(str, cluster.cpus)), 0o444)
    files.put(f"{folder}/affected_cpus", " ".join(map(str, cluster.cpus)), 0o444)
    listed = "".join(f"{khz} " for khz in board.cpu_khz)  # the kernel ends the list with a space
    files.put(f"{folder}/scaling_available_frequencies", listed, 0o444)
    files.put(f"{folder}/cpuinfo_min_freq", low, 0o444)
    files.put(f"{folder}/cpuinfo_max_freq", high, 0o444)
    files.put(f"{folder}/cpuinfo_cur_freq", low, 0o400)
    files.put(f"{folder}/scaling_cur_freq", low, 0o444)
    files.put(f"{folder}/scaling_available_governors", "conservative ondemand userspace powersave performance schedutil")
    os.chmod(files.root / folder / "scaling_available_governors", 0o444)
    files.put(f"{folder}/scaling_governor", governor)
    files.put(f"{folder}/scaling_setspeed", "<unsupported>")
    _limit(files, board, cluster, low, high)


def answers(files: KernelFiles, board: FakeBoard) -> dict[str, Answer]:
    """Return how the files answer, by path."""
    found: dict[str, Answer] = {
        f"{_CPU}/online": Answer(read=lambda: _ranges(online(files, board))),
        f"{_CPU}/offline": Answer(read=lambda: _ranges(sorted(set(board.catalogue.cpus) - set(online(files, board))))),
    }
    for cluster in board.catalogue.clusters:
        found |= _policy_answers(files, board, cluster)
        for cpu in cluster.cpus:
            found[f"{_CPU}/cpu{cpu}/online"] = Answer(write=_switch(files, board, cluster, cpu))
            for state in range(len(board.catalogue.idle_states)):
                path = f"{_CPU}/cpu{cpu}/cpuidle/state{state}/disable"
                found[path] = Answer(write=lambda value, path=path: files.put(path, int(number(value) != 0)))  # type: ignore[misc]
    return found


def number(value: str) -> int:
    """Return the number written, or refuse it as the kernel does."""
    if not value.isdecimal():
        refuse(errno.EINVAL)
    return int(value)


def online(files: KernelFiles, board: FakeBoard) -> list[int]:
    """Return the cores that are online."""
    return [cpu for cpu in board.catalogue.cpus if _is_on(files, cpu)]


def _is_on(files: KernelFiles, cpu: int) -> bool:
    return (cpu == 0) or files.raw(f"{_CPU}/cpu{cpu}/online") == "1"


def _active(files: KernelFiles, cluster: Cluster) -> bool:
    return any(_is_on(files, cpu) for cpu in cluster.cpus)


def _switch(files: KernelFiles, board: FakeBoard, cluster: Cluster, cpu: int):  # type: ignore[no-untyped-def]
    def write(value: str) -> None:
        wanted = number(value)
        if wanted not in (0, 1):
            refuse(errno.EINVAL)
        if wanted == _is_on(files, cpu):
            return
        if cpu == 0:
            refuse(errno.EPERM)  # "CORE_0 cannot be offlined"; which error it answers is not published
        if cpu in board.stuck_cores:
            refuse(errno.EBUSY)
        was_active = _active(files, cluster)
        files.put(f"{_CPU}/cpu{cpu}/online", wanted)
        if was_active and not _active(files, cluster):
            _park(files, board, cluster)
        elif not was_active:
            _unpark(files, board, cluster)

    return write


def _park(files: KernelFiles, board: FakeBoard, cluster: Cluster) -> None:
    if board.offline_policy == "missing":
        os.makedirs(files.root / _PARKED, exist_ok=True)
        os.rename(files.root / _policy(cluster), files.root / _PARKED / cluster.policy)


def _unpark(files: KernelFiles, board: FakeBoard, cluster: Cluster) -> None:
    parked = files.root / _PARKED / cluster.policy
    if parked.exists():
        os.rename(parked, files.root / _policy(cluster))
    if board.reonline == "boot":
        _limit(files, board, cluster, board.cpu_khz[0], board.cpu_khz[-1])


def _policy_answers(files: KernelFiles, board: FakeBoard, cluster: Cluster) -> dict[str, Answer]:
    folder = _policy(cluster)

    def awake(path: str, *, writing: bool = False) -> None:
        if not _active(files, cluster) and (writing or board.offline_policy == "ebusy"):
            refuse(errno.EBUSY, path)

    def plain(path: str):  # type: ignore[no-untyped-def]
        def read() -> str:
            awake(path)
            return files.raw(path)

        return read

    def limit(end: str):  # type: ignore[no-untyped-def]
        def write(value: str) -> None:
            awake(f"{folder}/scaling_{end}_freq", writing=True)
            _ask(files, board, cluster, end, number(value))

        return write

    def governor(value: str) -> None:
        awake(folder, writing=True)
        if value not in files.raw(f"{folder}/scaling_available_governors").split():
            refuse(errno.EINVAL)
        files.put(f"{folder}/scaling_governor", value)
        speed = str(current_khz(files, board, cluster)) if value == "userspace" else "<unsupported>"
        files.put(f"{folder}/scaling_setspeed", speed)

    def speed(value: str) -> None:
        awake(folder, writing=True)
        if files.raw(f"{folder}/scaling_governor") != "userspace":
            refuse(errno.EINVAL)
        files.put(f"{folder}/scaling_setspeed", number(value))

    def clock() -> str:
        awake(folder)
        return str(current_khz(files, board, cluster))

    def measured() -> str:
        awake(folder)
        throttled = files.hidden("throttled") == "1"  # counters see what the request does not: half the clock
        return str(current_khz(files, board, cluster) // (2 if throttled else 1))

    def cores_on() -> str:
        awake(folder)
        return " ".join(str(cpu) for cpu in cluster.cpus if _is_on(files, cpu))

    names = ("related_cpus", "scaling_available_frequencies", "cpuinfo_min_freq", "cpuinfo_max_freq")
    found = {f"{folder}/{name}": Answer(plain(f"{folder}/{name}")) for name in names}
    found[f"{folder}/scaling_available_governors"] = Answer(plain(f"{folder}/scaling_available_governors"))
    found[f"{folder}/affected_cpus"] = Answer(cores_on)
    found[f"{folder}/scaling_cur_freq"] = Answer(clock)
    found[f"{folder}/cpuinfo_cur_freq"] = Answer(measured)
    found[f"{folder}/scaling_governor"] = Answer(plain(f"{folder}/scaling_governor"), governor)
    found[f"{folder}/scaling_setspeed"] = Answer(plain(f"{folder}/scaling_setspeed"), speed)
    for end in ("min", "max"):
        path = f"{folder}/scaling_{end}_freq"
        found[path] = Answer(plain(path), limit(end))
    return found


def _ask(files: KernelFiles, board: FakeBoard, cluster: Cluster, end: str, khz: int) -> None:
    """Take a limit: 4.9 refuses min > max, later kernels keep the request and let the lower of the two limits win."""
    folder = _policy(cluster)
    source = "request" if board.qos else "effect"
    if source == "request":
        low, high = (int(files.hidden(f"{cluster.policy}.{name}")) for name in ("min", "max"))
    else:
        low, high = (int(files.raw(f"{folder}/scaling_{name}_freq")) for name in ("min", "max"))
    low, high = (khz, high) if end == "min" else (low, khz)
    if not board.qos and low > high:
        refuse(errno.EINVAL, f"{folder}/scaling_{end}_freq")
    _limit(files, board, cluster, low, high)


def _limit(files: KernelFiles, board: FakeBoard, cluster: Cluster, low: int, high: int) -> None:
    files.hide(f"{cluster.policy}.min", low)
    files.hide(f"{cluster.policy}.max", high)
    first, last = board.cpu_khz[0], board.cpu_khz[-1]
    highest = min(max(high, first), last)
    lowest = min(max(low, first), highest)
    files.put(f"{_policy(cluster)}/scaling_min_freq", lowest)
    files.put(f"{_policy(cluster)}/scaling_max_freq", highest)


def current_khz(files: KernelFiles, board: FakeBoard, cluster: Cluster) -> int:
    """Return the clock that the governor asks for now: the highest allowed under load, else the lowest."""
    folder = _policy(cluster)
    low, high = (int(files.raw(f"{folder}/scaling_{end}_freq")) for end in ("min", "max"))
    governor = files.raw(f"{folder}/scaling_governor")
    if governor == "userspace":
        wanted = int(files.raw(f"{folder}/scaling_setspeed"))
    else:
        busy = float(files.hidden("busy.cpu", "0")) > 0
        wanted = high if governor == "performance" or (busy and governor != "powersave") else low
    wanted = min(max(wanted, low), high)
    return max((khz for khz in board.cpu_khz if khz <= wanted), default=board.cpu_khz[0])


def _ranges(cpus: list[int]) -> str:
    """Write cores as the kernel does, e.g. ``0-3,6``."""
    parts: list[list[int]] = []
    for cpu in cpus:
        if parts and cpu == parts[-1][-1] + 1:
            parts[-1].append(cpu)
        else:
            parts.append([cpu])
    return ",".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)
