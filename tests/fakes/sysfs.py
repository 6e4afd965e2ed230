"""What a host's kernel shows of its CPU: clusters with their clocks, and the energy counters of its dies."""

import errno
from collections.abc import Callable, Mapping, Sequence

from edgetune.testing.fake_files import Answer, KernelFiles, refuse

CPUFREQ, POWERCAP = "sys/devices/system/cpu/cpufreq", "sys/class/powercap"
KHZ = (800_000, 1_600_000, 2_400_000)
ONE_CLUSTER = {0: KHZ}
RK3588 = {
    0: (1_008_000, 1_416_000, 1_800_000),
    4: (1_200_000, 1_608_000, 2_400_000),
    6: (1_200_000, 1_608_000, 2_400_000),
}
"""A few of the clocks of a chip whose clusters differ. Source: rk3588s.dtsi of Linux and cpufreq of boards."""


def add_cpufreq(
    sysfs: KernelFiles, clusters: Mapping[int, Sequence[int]] = ONE_CLUSTER, *, boost: int | None = None
) -> None:
    """Add cpufreq policies that refuse, as Linux 4.9 does, to let minimum pass maximum."""
    for number, khz in clusters.items():
        folder = f"{CPUFREQ}/policy{number}"
        sysfs.put(f"{folder}/scaling_available_frequencies", " ".join(map(str, reversed(khz))))
        for end, limit in {"min": khz[0], "max": khz[-1]}.items():
            sysfs.put(f"{folder}/cpuinfo_{end}_freq", limit)
            sysfs.put(f"{folder}/scaling_{end}_freq", limit)
        sysfs.answer(f"{folder}/scaling_min_freq", _bounded(sysfs, f"{folder}/scaling_max_freq", highest=True))
        sysfs.answer(f"{folder}/scaling_max_freq", _bounded(sysfs, f"{folder}/scaling_min_freq", highest=False))
        if boost is not None:
            sysfs.put(f"{folder}/scaling_driver", "acpi-cpufreq")
    if boost is not None:
        sysfs.put(f"{CPUFREQ}/boost", boost)


def _bounded(sysfs: KernelFiles, other: str, *, highest: bool) -> Callable[[str], str]:
    """Return an answer that refuses values beyond that of ``other``."""

    def answer(value: str) -> str:
        limit = int(sysfs.read(other))
        if (int(value) > limit) if highest else (int(value) < limit):
            refuse(errno.EINVAL, other)
        return value

    return answer


def add_rapl(
    sysfs: KernelFiles,
    packages: Sequence[str] = ("package-0",),
    *,
    energy_uj: int = 0,
    range_uj: int = 262_143_328_850,
    memory: bool = False,
    mirrored: bool = False,
) -> list[str]:
    """Add CPU packages, the first with its core domain and optional memory; return the folders that a sensor counts."""
    zones = {f"intel-rapl:{number}": name for number, name in enumerate(packages)}
    zones |= {"intel-rapl:0:0": "core"} | ({"intel-rapl:0:1": "dram"} if memory else {})
    first: dict[str, str] = {}
    for zone, name in zones.items():
        sysfs.put(f"{POWERCAP}/{zone}/name", name)
        sysfs.put(f"{POWERCAP}/{zone}/energy_uj", energy_uj)
        sysfs.put(f"{POWERCAP}/{zone}/max_energy_range_uj", range_uj)
        shown = first.setdefault(name.partition("-die-")[0], zone)
        if mirrored and shown != zone:
            sysfs.answers[f"{POWERCAP}/{zone}/energy_uj"] = Answer(
                lambda at=shown: sysfs.raw(f"{POWERCAP}/{at}/energy_uj")
            )
    return [f"{POWERCAP}/{zone}" for zone, name in zones.items() if name != "core"]
