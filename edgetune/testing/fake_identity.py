"""Fake identity: device tree, release files and versions, by which a program learns where it runs."""

from __future__ import annotations

from edgetune.testing.fake_description import FakeBoard
from edgetune.testing.fake_files import KernelFiles

_OS_RELEASE = {"4.9": "4.9.337-tegra", "5.10": "5.10.104-tegra", "5.15": "5.15.148-tegra", "6.8": "6.8.12-tegra"}
"""6.8.12 is what Thor shows; the others are as their releases name them."""


_FAN_CONF = """POLLING_INTERVAL 2

<FAN 1>
\tTMARGIN ENABLED
\tFAN_GROUP 0 {
\t\tGROUP_MAX_TEMP 105
\t}
\tFAN_PROFILE quiet {
\t\t#TEMP \tHYST\tPWM\tRPM
\t\t0\t0 \t255\t2900
\t\t60\t0 \t77\t1500
\t\t105\t0 \t0\t0
\t}

FAN_DEFAULT_CONTROL close_loop
FAN_DEFAULT_PROFILE quiet
FAN_DEFAULT_GOVERNOR cont"""
"""Figures made up; with TMARGIN the first column is head-room below the critical temperature."""


def boot(files: KernelFiles, board: FakeBoard) -> None:
    """Make the volatile part: what the boot loader and the kernel say."""
    entry = board.catalogue
    model = entry.models[0] + (" Super" if board.super_dt and not entry.models[0].endswith("Super") else "")
    module = entry.module_ids[0] + ("-super" if board.super_dt else "")
    compatible = [f"nvidia,{module}", f"nvidia,{board.soc}"]
    if module.startswith("p3767"):
        compatible.insert(0, f"nvidia,p3768-0000+{module}")  # on the carrier board of the developer kit
    tree = "proc/device-tree"
    files.put_bytes(f"{tree}/model", f"{model}\0".encode(), 0o444)
    files.put_bytes(f"{tree}/compatible", "".join(f"{name}\0" for name in compatible).encode(), 0o444)
    if board.kernel in ("4.9", "5.10"):
        name = f"tegra{board.soc[-3:]}-{entry.module_ids[0]}.dts"
        files.put_bytes(f"{tree}/nvidia,dtsfilename", f"arch/arm64/boot/dts/{name}\0".encode(), 0o444)
    boots = int(files.hidden("boots", "0"))
    files.put("proc/sys/kernel/random/boot_id", f"00000000-0000-4000-8000-{boots:012d}", 0o444)
    files.put("proc/sys/kernel/osrelease", _OS_RELEASE[board.kernel], 0o444)
    files.put("proc/version", f"Linux version {_OS_RELEASE[board.kernel]} (fake kernel of edgetune)", 0o444)


def install(files: KernelFiles, board: FakeBoard) -> None:
    """Make the persistent part: what the release put on the disk."""
    major, _, revision = board.l4t.partition(".")
    old = {"tegra210": "t210ref", "tegra186": "t186ref", "tegra194": "t186ref"}
    name = "generic" if int(major) >= 36 else old.get(board.soc, "t186ref")
    lines = [
        f"# R{major} (release), REVISION: {revision}, GCID: 00000000, BOARD: {name}, EABI: aarch64, "
        "DATE: Thu Jan  1 00:00:00 UTC 1970"
    ]
    if int(major) >= 36:
        lines.append("# KERNEL_VARIANT: oot")
    files.put("etc/nv_tegra_release", "\n".join(lines))
    module = board.catalogue.module_ids[0].removeprefix("p")
    files.put("etc/nv_boot_control.conf", f"TNSPEC {module}-fake-1-0-{board.board}-")
    files.put("etc/nvfancontrol.conf", _FAN_CONF)
    for folder in ("var/lib/edgetune", "run"):
        (files.root / folder).mkdir(parents=True, exist_ok=True)
