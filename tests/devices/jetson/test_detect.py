"""Which Jetson this is: on device trees and release files as boards have them."""

import pytest

from edgetune.devices.jetson.detect import detect_jetson
from edgetune.testing.fake_files import KernelFiles

ORIN = ("nvidia,p3737-0000+p3701-0005", "nvidia,p3701-0005", "nvidia,tegra234")


def board(tmp_path, compatible=ORIN, *, l4t=(36, "4.3"), kernel="5.15.148-tegra", model="Jetson AGX Orin"):
    """A machine with the files by which boards are told apart; NULs and all."""
    sysfs = KernelFiles(tmp_path)
    for path, words in (("compatible", compatible), ("model", (model,))):
        (tmp_path / "proc/device-tree").mkdir(parents=True, exist_ok=True)
        (tmp_path / "proc/device-tree" / path).write_bytes("".join(f"{word}\0" for word in words).encode())
    if l4t is not None:
        release = (
            f"# R{l4t[0]} (release), REVISION: {l4t[1]}, GCID: 38968081, BOARD: generic, EABI: aarch64, DATE: ...\n"
        )
        sysfs.put("etc/nv_tegra_release", f"{release}# KERNEL_VARIANT: oot")
    if kernel is not None:
        sysfs.put("proc/sys/kernel/osrelease", kernel)
    return sysfs


@pytest.mark.parametrize(
    ("compatible", "soc", "module"),
    [
        (("nvidia,p3449-0000-b00+p3448-0000-b00", "nvidia,jetson-nano", "nvidia,tegra210"), "tegra210", "p3448-0000"),
        (("nvidia,p2597-0000+p3310-1000", "nvidia,tegra186"), "tegra186", "p3310-1000"),
        (("nvidia,galen", "nvidia,p2822-0000+p2888-0001", "nvidia,tegra194"), "tegra194", "p2888-0001"),
        (("nvidia,p3509-0000+p3668-0000", "nvidia,tegra194"), "tegra194", "p3668-0000"),
        (("nvidia,p3509-0000+p3767-0004", "nvidia,tegra234", "nvidia,tegra23x"), "tegra234", "p3767-0004"),
        (("nvidia,p3971-0050+p3834-0008", "nvidia,p3834-0008", "nvidia,tegra264"), "tegra264", "p3834-0008"),
    ],
)
def test_the_module_is_told_from_its_carrier(tmp_path, compatible, soc, module):
    found = detect_jetson(board(tmp_path, compatible))
    assert (found.soc, found.module, found.notes) == (soc, module, ())


def test_an_older_release_names_the_module_in_its_device_tree_file(tmp_path):
    sysfs = board(tmp_path, ("nvidia,p2972-0000", "nvidia,tegra194"))
    sysfs.put("proc/device-tree/nvidia,dtsfilename", "/dvs/git/kernel/tegra194-p2888-0001-p2822-0000.dts\0")
    found = detect_jetson(sysfs)
    assert found.module == "p2888-0001"


@pytest.mark.parametrize(
    ("l4t", "jetpack", "kernel", "generation"),
    [
        ((32, "7.4"), 4, "4.9.337-tegra", "4.9"),
        ((34, "1.1"), 5, "5.10.65-tegra", "5.10"),
        ((35, "4.1"), 5, "5.10.120-tegra", "5.10"),
        ((38, "2.0"), 7, "6.8.12-tegra", "6.8"),
        ((39, "2.1"), 7, "6.8.12-tegra", "6.8"),
    ],
)
def test_release_and_kernel_give_jetpack_and_generation(tmp_path, l4t, jetpack, kernel, generation):
    found = detect_jetson(board(tmp_path, l4t=l4t, kernel=kernel))
    assert (found.jetpack, found.kernel_generation, found.notes) == (jetpack, generation, ())


def test_the_kernel_is_also_told_by_its_version_line(tmp_path):
    sysfs = board(tmp_path, kernel=None)
    sysfs.put("proc/version", "Linux version 5.15.148-tegra (buildbrain@mobile) (gcc 11.3.0) #1 SMP PREEMPT")
    found = detect_jetson(sysfs)
    assert found.kernel == "5.15.148-tegra"


@pytest.mark.parametrize(
    ("path", "text", "hint"),
    [
        (".dockerenv", "", "/.dockerenv exists"),
        ("run/.containerenv", "", "/run/.containerenv exists"),
        ("proc/1/cgroup", "0::/system.slice/docker-1f2e.scope", "/proc/1/cgroup names docker"),
    ],
)
def test_a_container_is_reported_and_noted(tmp_path, path, text, hint):
    sysfs = board(tmp_path)
    sysfs.put(path, text)
    found = detect_jetson(sysfs)
    assert found.container == hint
    assert [note for note in found.notes if "container" in note]


@pytest.mark.parametrize(("namespace", "inside"), [(4026531835, False), (4026532742, True)])
def test_a_container_under_control_groups_2_is_told_by_its_namespace(tmp_path, namespace, inside):
    sysfs = board(tmp_path)
    sysfs.put("proc/1/cgroup", "0::/")
    (tmp_path / "proc/self/ns").mkdir(parents=True)
    (tmp_path / "proc/self/ns/cgroup").symlink_to(f"cgroup:[{namespace}]")
    found = detect_jetson(sysfs)
    assert (found.container is not None) == inside


def test_a_container_that_hides_the_device_tree_does_not_hide_the_board(tmp_path):
    sysfs = KernelFiles(tmp_path)
    texts = {".dockerenv": "", "sys/devices/soc0/family": "Tegra", "sys/devices/soc0/soc_id": 35}
    texts["sys/devices/soc0/machine"] = "NVIDIA Jetson Orin Nano Developer Kit"
    for path, text in texts.items():
        sysfs.put(path, text)
    found = detect_jetson(sysfs)
    assert (found.model, found.soc) == ("NVIDIA Jetson Orin Nano Developer Kit", "tegra234")
    assert [note for note in found.notes if "systempaths=unconfined" in note]


def test_a_board_made_tomorrow_is_described_by_itself(tmp_path):
    later = ("nvidia,p5000-0000+p4999-0001", "nvidia,tegra300")
    found = detect_jetson(board(tmp_path, later, l4t=(45, "1.0"), kernel="7.1.0-tegra", model="Jetson Next"))
    assert (found.soc, found.module, found.l4t, found.jetpack) == ("tegra300", "p4999-0001", "45.1.0", None)
    assert found.kernel_generation == "7.1"
    assert [note.split(" is ")[0].split(" belongs")[0] for note in found.notes] == [
        "the chip tegra300",
        "the module p4999-0001",
        "L4T 45.1.0",
        "the kernel 7.1.0-tegra",
    ]


def test_a_bare_device_tree_leaves_the_rest_unknown(tmp_path):
    found = detect_jetson(board(tmp_path, ("nvidia,tegra234",), l4t=None, kernel=None))
    assert (found.module, found.l4t, found.jetpack, found.kernel, found.kernel_generation) == (None,) * 5
    assert len(found.notes) == 3


@pytest.mark.parametrize(
    "compatible", [(), ("raspberrypi,5-model-b", "brcm,bcm2712"), ("asus,grouper", "nvidia,tegra30")]
)
def test_another_machine_is_none(tmp_path, compatible):
    assert detect_jetson(board(tmp_path, compatible, l4t=None)) is None
