"""NVIDIA's modes with values that the board has: snapped as nvpmodel does, caps, and what needs a reboot."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.artifacts.mode import Mode
from edgetune.devices.jetson.knobs import caps_of, presets_of
from edgetune.devices.jetson.nvpmodel import Nvpmodel
from edgetune.devices.jetson.nvpmodel_grammar import parse_configuration

NANO = {
    "cpu_cores": (1.0, 2.0, 3.0, 4.0),
    "cpu_mhz": (102.0, 204.0, 825.6, 921.6, 1036.8, 1479.0),
    "gpu_mhz": (76.8, 537.6, 614.4, 691.2, 921.6),
    "mem_mhz": (204.0, 665.6, 1331.2, 1600.0),
}
CLOCK_FILES = {"FREQ_TABLE": "scaling_available_frequencies", "MAX_FREQ": "scaling_max_freq"}


def nvpmodel(modes, *, clusters=(0,), cores=4, active=None, emc="emc_iso_cap"):
    """A configuration with a clock ``CPU_N`` per cluster (N its first core), and modes as (name, lines)."""
    lines = ["< PARAM TYPE=FILE NAME=CPU_ONLINE >"]
    lines += [f"CORE_{cpu} /sys/devices/system/cpu/cpu{cpu}/online" for cpu in range(cores)]
    lines += ["< PARAM TYPE=FILE NAME=TPC_POWER_GATING >", "TPC_PG_MASK /sys/devices/gpu.0/tpc_pg_mask"]
    lines += ["< PARAM TYPE=FILE NAME=FBP_POWER_GATING >", "FBP_PG_MASK /sys/devices/gpu.0/fbp_pg_mask"]
    for cpu in clusters:
        lines.append(f"< PARAM TYPE=CLOCK NAME=CPU_{cpu} >")
        lines += [f"{what} /sys/devices/system/cpu/cpu{cpu}/cpufreq/{file}" for what, file in CLOCK_FILES.items()]
    lines += ["< PARAM TYPE=CLOCK NAME=GPU >", "MAX_FREQ /sys/class/devfreq/57000000.gpu/max_freq"]
    lines += ["< PARAM TYPE=CLOCK NAME=EMC >", f"MAX_FREQ /sys/kernel/nvpmodel/{emc}"]
    for number, (name, settings) in enumerate(modes):
        lines += [f"< POWER_MODEL ID={number} NAME={name} >", *settings]
    config = parse_configuration("\n".join(lines))
    paths = {("EMC", "MAX_FREQ"): f"/sys/kernel/nvpmodel/{emc}"} if emc else {}
    return Nvpmodel(config, active, "/etc/nvpmodel.conf", "0" * 64, paths)


def preset(settings, tables=NANO, **how) -> Mode:
    return presets_of(nvpmodel([("M", settings)], **how), tables, {}).modes["M"]


def test_the_modes_of_a_nano_are_what_was_seen_on_one():
    """918000 kHz and 640000000 Hz are in no table; the board then showed 921600 and 614400000."""
    half = ["CPU_ONLINE CORE_0 1", "CPU_ONLINE CORE_2 0", "CPU_ONLINE CORE_3 0"]
    modes = [
        ("MAXN", ["CPU_0 MAX_FREQ -1", "GPU MAX_FREQ -1", "EMC MAX_FREQ 0"]),
        ("5W", [*half, "CPU_0 MAX_FREQ 918000", "GPU MAX_FREQ 640000000", "EMC MAX_FREQ 1600000000"]),
    ]
    found = presets_of(nvpmodel(modes), NANO, {})
    assert found.needs_reboot == {}
    assert found.modes == {
        "MAXN": Mode(cpu_cores=4, cpu_mhz=1479.0, gpu_mhz=921.6, mem_mhz=1600.0),
        "5W": Mode(cpu_cores=2, cpu_mhz=921.6, gpu_mhz=614.4, mem_mhz=1600.0),
    }


def test_names_are_those_of_the_file_and_a_second_of_a_name_carries_its_number():
    found = presets_of(nvpmodel([("MODE_30W", []), ("MAXN_SUPER", []), ("MODE_30W", [])]), NANO, {})
    assert list(found.modes) == ["MODE_30W", "MAXN_SUPER", "MODE_30W#2"]


def test_memory_runs_at_its_highest_rate_below_the_limit():
    assert preset(["EMC MAX_FREQ 1599000000"]).mem_mhz == 1331.2
    assert preset(["EMC MAX_FREQ 1331200000"]).mem_mhz == 1331.2
    assert preset(["EMC MAX_FREQ 1000"]).mem_mhz == 204.0


@pytest.mark.parametrize(("interface", "mhz"), [("emc_iso_cap", 1600.0), ("nvpmodel_clk_cap/emc", None), ("", None)])
def test_a_memory_limit_of_zero_is_none_only_where_the_kernel_says_so(interface, mhz):
    assert preset(["EMC MAX_FREQ 0"], emc=interface).mem_mhz == mhz
    assert preset(["EMC MAX_FREQ -1"], emc=interface).mem_mhz == 1600.0


def test_the_slowest_cluster_that_has_a_core_gives_the_cpu_clock():
    limits = ["CPU_0 MAX_FREQ 1036800", "CPU_1 MAX_FREQ 204000", "CPU_2 MAX_FREQ -1"]
    how = {"clusters": (0, 1, 2)}
    assert preset(limits, **how).cpu_mhz == 204.0
    assert preset([*limits, "CPU_ONLINE CORE_1 0"], **how).cpu_mhz == 1036.8
    assert preset(["CPU_1 MAX_FREQ -1", "CPU_2 MAX_FREQ -1"], **how).cpu_mhz == 1479.0  # CPU_0 is not limited


def test_core_0_is_never_off_and_cores_without_a_line_stay_on():
    assert preset(["CPU_ONLINE CORE_0 0", "CPU_ONLINE CORE_1 0"]).cpu_cores == 3


def test_cores_that_this_module_does_not_have_are_not_counted():
    """One file serves modules with different numbers of cores."""
    off = [f"CPU_ONLINE CORE_{cpu} 0" for cpu in (2, 3, 4, 5)]
    assert preset(off, {"cpu_cores": (1.0, 2.0, 3.0, 4.0)}, cores=6).cpu_cores == 2


MASKED = [
    ("15W", ["TPC_POWER_GATING TPC_PG_MASK 248", "FBP_POWER_GATING FBP_PG_MASK 2"]),
    ("30W", ["TPC_POWER_GATING TPC_PG_MASK 240", "FBP_POWER_GATING FBP_PG_MASK 2"]),
    ("40W", ["TPC_POWER_GATING TPC_PG_MASK 240", "FBP_POWER_GATING FBP_PG_MASK 0"]),
    ("OPEN", []),
]


def test_modes_that_switch_parts_of_the_gpu_are_kept_and_marked():
    found = presets_of(nvpmodel(MASKED), NANO, {"TPC_PG_MASK": "240", "FBP_PG_MASK": "0x2"})
    assert list(found.modes) == ["15W", "30W", "40W", "OPEN"]
    assert found.needs_reboot == {
        "15W": "needs a reboot: TPC mask 248, now 240",
        "40W": "needs a reboot: FBP mask 0, now 0x2",
    }


def test_a_mask_that_nobody_knows_is_not_assumed_to_fit():
    found = presets_of(nvpmodel(MASKED), NANO, {"FBP_PG_MASK": "2"})
    assert found.needs_reboot["30W"] == "needs a reboot: TPC mask 240, now unknown"
    assert "OPEN" not in found.needs_reboot


@pytest.mark.parametrize("active", [None, 7])
def test_without_an_active_mode_no_cap_is_known(active):
    found = caps_of(nvpmodel([("MAXN", ["GPU MAX_FREQ -1"])], active=active), NANO)
    assert found == dict.fromkeys(("cpu_cores", "cpu_mhz", "gpu_mhz", "mem_mhz"))


@given(
    table=st.lists(st.integers(1, 4_000_000), min_size=1, max_size=20, unique=True).map(sorted),
    limit=st.integers(-1, 5_000_000),
)
def test_a_cpu_limit_becomes_the_value_that_is_nearest(table, limit):
    mhz = tuple(khz / 1000 for khz in table)
    got = preset([f"CPU_0 MAX_FREQ {limit}"], {"cpu_mhz": mhz}).cpu_mhz
    best = table[-1] if limit == -1 else min(table, key=lambda khz: (abs(khz - limit), khz))
    assert got == best / 1000
