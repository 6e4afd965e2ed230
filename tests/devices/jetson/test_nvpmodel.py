"""Which configuration is in force and which mode is active: from files, and from nvpmodel where they are silent."""

import errno
import hashlib
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.artifacts.mode import Mode
from edgetune.devices.jetson.knobs import caps_of, presets_of
from edgetune.devices.jetson.nvpmodel import (
    Nvpmodel,
    NvpmodelStatus,
    ask_nvpmodel,
    parse_answer,
    present_masks,
    read_nvpmodel,
)
from edgetune.devices.jetson.nvpmodel_grammar import parse_configuration
from edgetune.testing.fake_files import KernelFiles

CONF = """\
< PARAM TYPE=FILE NAME=TPC_POWER_GATING >
TPC_PG_MASK /sys/devices/gpu.0/tpc_pg_mask
TPC_PG_MASK_KNEXT /sys/devices/platform/gpu.0/tpc_pg_mask
< PARAM TYPE=CLOCK NAME=EMC >
MAX_FREQ /sys/kernel/nvpmodel_emc_cap/emc_iso_cap
MAX_FREQ_KNEXT /sys/kernel/nvpmodel_clk_cap/emc
< POWER_MODEL ID=0 NAME=MAXN >
TPC_POWER_GATING TPC_PG_MASK 0
EMC MAX_FREQ -1
< POWER_MODEL ID=2 NAME=MODE_30W >
TPC_POWER_GATING TPC_PG_MASK 240
EMC MAX_FREQ -1
< PM_CONFIG DEFAULT=2 >
"""
REAL = "etc/nvpmodel/nvpmodel_p3701_0000.conf"


@pytest.fixture
def sysfs(tmp_path):
    """A board whose /etc/nvpmodel.conf is a link to the file of its module, as NVIDIA makes it."""
    sysfs = KernelFiles(tmp_path)
    (tmp_path / "etc/nvpmodel").mkdir(parents=True)
    (tmp_path / REAL).write_text(CONF)
    (tmp_path / "etc/nvpmodel.conf").symlink_to(f"/{REAL}")
    sysfs.put("var/lib/nvpmodel/status", "pmode:0002")
    sysfs.put("sys/kernel/nvpmodel_clk_cap/emc", 3_199_000_000)
    return sysfs


def read(sysfs, ask=None) -> Nvpmodel:
    found = read_nvpmodel(sysfs, ask)
    assert isinstance(found, Nvpmodel), found
    return found


def test_the_link_is_followed_below_the_root(sysfs):
    found = read(sysfs)
    assert found.path == f"/{REAL}"
    assert found.sha256 == hashlib.sha256(CONF.encode()).hexdigest()
    assert found.active == 2
    assert found.active_model is found.config.models[1]
    assert (found.fan_profile, found.notes) == (None, ())


def test_without_a_link_the_file_that_nvpmodel_noted_is_used(sysfs):
    (sysfs.root / "etc/nvpmodel.conf").unlink()
    sysfs.put("var/lib/nvpmodel/conf_file_path", f"/{REAL}")
    assert read(sysfs).path == f"/{REAL}"


def test_a_link_to_nowhere_is_as_good_as_none(sysfs):
    (sysfs.root / REAL).rename(sysfs.root / "etc/nvpmodel/other.conf")
    nothing = "there is no /etc/nvpmodel.conf, and /var/lib/nvpmodel/conf_file_path names no file"
    assert read_nvpmodel(sysfs) == nothing
    sysfs.put("var/lib/nvpmodel/conf_file_path", "/etc/nvpmodel/gone.conf")
    assert read_nvpmodel(sysfs) == nothing
    sysfs.put("var/lib/nvpmodel/conf_file_path", "/etc/nvpmodel/other.conf")
    assert read(sysfs).path == "/etc/nvpmodel/other.conf"


def test_links_in_a_circle_end_in_a_reason(sysfs):
    (sysfs.root / REAL).unlink()
    (sysfs.root / REAL).symlink_to("/etc/nvpmodel.conf")
    assert read_nvpmodel(sysfs) == f"/etc/nvpmodel.conf: {os.strerror(errno.ELOOP)}"


def test_a_file_that_is_not_understood_is_a_reason_with_its_line(sysfs):
    (sysfs.root / REAL).write_text("/sys/devices/system/cpu/cpu1/online 0\n")
    reason = read_nvpmodel(sysfs)
    assert reason.startswith(f"/{REAL}, line 1: ")


def test_jetpack_4_notes_the_fan_with_the_mode(sysfs):
    sysfs.put("var/lib/nvpmodel/status", "pmode:0000 fmode:quiet")
    found = read(sysfs)
    assert (found.active, found.fan_profile) == (0, "quiet")


def test_the_default_is_not_taken_for_the_active_mode(sysfs):
    sysfs.remove("var/lib/nvpmodel/status")
    found = read(sysfs)
    assert (found.config.default, found.active, found.active_model) == (2, None, None)
    assert found.notes == ("the active power mode is not known: /var/lib/nvpmodel/status does not tell it",)


@pytest.mark.parametrize(
    ("answer", "active", "note"),
    [
        (NvpmodelStatus("MODE_30W", 2, wants_reboot=False), 2, ""),
        (NvpmodelStatus("MODE_30W", None, wants_reboot=False), 2, ""),
        (NvpmodelStatus("OTHER", None, wants_reboot=False), None, "nvpmodel does not tell it"),
        (NvpmodelStatus("MAXN", 0, wants_reboot=True), 0, "asks for a reboot"),
        ("it could not be run", None, "and it could not be run"),
    ],
)
def test_nvpmodel_is_asked_where_its_state_is_silent(sysfs, answer, active, note):
    sysfs.put("var/lib/nvpmodel/status", "")
    found = read(sysfs, lambda: answer)
    assert found.active == active
    assert note in "".join(found.notes)
    assert bool(found.notes) == bool(note)


def test_the_paths_are_those_that_this_kernel_has(sysfs):
    assert read(sysfs).paths == {("EMC", "MAX_FREQ"): "/sys/kernel/nvpmodel_clk_cap/emc"}


def test_a_mask_that_cannot_be_read_is_that_of_the_active_mode(sysfs):
    sysfs.put("sys/devices/platform/gpu.0/tpc_pg_mask", 248)
    sysfs.deny_reading("sys/devices/platform/gpu.0/tpc_pg_mask")
    assert present_masks(sysfs, read(sysfs)) == {"TPC_PG_MASK": "240"}
    sysfs.put("var/lib/nvpmodel/status", "")
    assert present_masks(sysfs, read(sysfs)) == {}


def test_thor_keeps_its_mask_as_a_module_parameter(sysfs):
    (sysfs.root / REAL).write_text(
        "< PARAM TYPE=FILE NAME=GPU_POWER_GATING >\nGPU_PG_MASK /opt/nvidia/l4t-gpusetup/gpu_pg_mask\n"
        "< POWER_MODEL ID=2 NAME=120W >\nGPU_POWER_GATING GPU_PG_MASK 64\n"
    )
    sysfs.put("opt/nvidia/l4t-gpusetup/gpu_pg_mask", "gpu_pg_mask_param=512")
    assert present_masks(sysfs, read(sysfs)) == {"GPU_PG_MASK": "512"}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("NV Power Mode: MAXN\n0\n", NvpmodelStatus("MAXN", 0, wants_reboot=False)),
        (
            "NVPM WARN: fan mode is not set!\nNV Power Mode: MODE_30W\n2\n",
            NvpmodelStatus("MODE_30W", 2, wants_reboot=False),
        ),
        ("NV Power Mode: 15W\n", NvpmodelStatus("15W", None, wants_reboot=False)),
        ("NV Power Mode: 15W\nNVPM WARN: 7 things\n", NvpmodelStatus("15W", None, wants_reboot=False)),
        ("", NvpmodelStatus(None, None, wants_reboot=False)),
        (
            "NVPM WARN: Golden image context is already created\n"
            "NVPM WARN: Reboot required for changing to this power mode: 1\n"
            "NVPM WARN: DO YOU WANT TO REBOOT NOW? enter YES/yes to confirm:\n"
            "NVPM ERROR: bad input!\n",
            NvpmodelStatus(None, None, wants_reboot=True),
        ),
    ],
)
def test_an_answer_is_read_whatever_stands_before_it(text, answer):
    assert parse_answer(text) == answer


def script(code):
    return (sys.executable, "-S", "-c", code)


def test_nvpmodel_never_hears_what_is_typed_to_the_program_that_asks_it():
    ours, theirs = os.dup(0), os.pipe()
    os.write(theirs[1], b"YES\n")
    os.dup2(theirs[0], 0)
    try:
        answer = ask_nvpmodel(script("import sys; print('NV Power Mode:', sys.stdin.readline().strip() or 'UNHEARD')"))
    finally:
        os.dup2(ours, 0)
        for descriptor in (ours, *theirs):
            os.close(descriptor)
    assert answer == NvpmodelStatus("UNHEARD", None, wants_reboot=False)


def test_an_nvpmodel_that_hangs_is_given_up():
    reason = ask_nvpmodel(script("import time; time.sleep(60)"), timeout_s=0.05)
    assert reason.endswith("did not answer within 0.05 s")


def test_a_machine_without_nvpmodel_says_so(tmp_path):
    command = f"{tmp_path}/nvpmodel"
    assert ask_nvpmodel((command, "-q")) == f"{command} could not be run: No such file or directory"


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
