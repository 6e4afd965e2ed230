"""Which configuration is in force and which mode is active: from files, and from nvpmodel where they are silent."""

import errno
import hashlib
import os
import sys

import pytest

from edgetune.devices.jetson.nvpmodel import (
    Nvpmodel,
    NvpmodelStatus,
    ask_nvpmodel,
    parse_answer,
    present_masks,
    read_nvpmodel,
)
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
    assert isinstance(reason, str)
    assert reason.startswith(f"/{REAL}, line 1: ")


def test_jetpack_4_notes_the_fan_with_the_mode(sysfs):
    sysfs.put("var/lib/nvpmodel/status", "pmode:0000 fmode:quiet")
    found = read(sysfs)
    assert (found.active, found.fan_profile) == (0, "quiet")


def test_a_mode_of_another_file_is_noted(sysfs):
    sysfs.put("var/lib/nvpmodel/status", "pmode:0009")
    found = read(sysfs)
    assert (found.active, found.active_model) == (9, None)
    assert found.notes == ("the active power mode 9 is not in the configuration: it was set from another file",)


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


def test_masks_are_read_where_they_lie(sysfs):
    sysfs.put("sys/devices/platform/gpu.0/tpc_pg_mask", 248)
    assert present_masks(sysfs, read(sysfs)) == {"TPC_PG_MASK": "248"}


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
        (
            "NV Fan Mode:quiet\nNV Power Mode: MODE_15W_6CORE\n12\n",
            NvpmodelStatus("MODE_15W_6CORE", 12, wants_reboot=False),
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
    assert isinstance(reason, str)
    assert reason.endswith("did not answer within 0.05 s")


def test_a_machine_without_nvpmodel_says_so(tmp_path):
    command = f"{tmp_path}/nvpmodel"
    assert ask_nvpmodel((command, "-q")) == f"{command} could not be run: No such file or directory"
