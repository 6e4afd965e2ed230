"""``edgetune doctor``: on fake Jetsons, on a machine that lacks a library, and on this one."""

import json
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgetune.devices.guardian.client import LAUNCHER
from edgetune.devices.software import REMEDIES
from edgetune.testing.fake_board import make_board
from edgetune.workflows.device import doctor
from edgetune.workflows.device.doctor import examine_board, journal_row
from edgetune.workflows.device.guardian_permission import changeable, examine_guardian, sudoers_line
from fakes.nvml import FakeGpu, FakeNvml


def fake_jetson(root: Path, release: str | None, *, compatible: str = "nvidia,p3737-0000\0nvidia,tegra234\0") -> Path:
    (root / "proc/device-tree").mkdir(parents=True)
    (root / "proc/device-tree/model").write_bytes(b"NVIDIA Jetson AGX Orin Developer Kit\0")
    (root / "proc/device-tree/compatible").write_bytes(compatible.encode())
    if release is not None:
        (root / "etc").mkdir()
        (root / "etc/nv_tegra_release").write_text(release)
    return root


def release(l4t: int, revision: str) -> str:
    return f"# R{l4t} (release), REVISION: {revision}, GCID: 38968081, BOARD: generic, EABI: aarch64, DATE: ...\n"


def test_jetpack_6_gets_nvidias_wheels(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "version_of", lambda _name: None)
    report = doctor.examine(fake_jetson(tmp_path, release(36, "4.3")))
    remedies = {library["name"]: library["remedy"] for library in report["libraries"]}
    assert remedies["torch"].startswith("pip install torch --index-url $JETSON_WHEELS")
    assert "/jp6/" in remedies["torch"]
    assert "onnxruntime-gpu" in remedies["onnxruntime"]
    assert remedies["cuda-bindings"] == "pip install 'edgetune[cuda12]'"
    assert "JETSON_WHEELS is the address" in report["install_on_this_board"][-1]
    assert report["board"]["jetpack"] == 6


@pytest.mark.parametrize(("l4t", "revision"), [(32, "7.4"), (35, "4.1")])
def test_older_jetpacks_get_a_python_for_edgetune_beside_their_own(edgetune, tmp_path, l4t, revision):
    ended = edgetune("doctor", "--root", str(fake_jetson(tmp_path, release(l4t, revision))))
    for line in REMEDIES[l4t // 8].commands:
        assert f"On this board: {line}" in ended.out
    assert "--python /usr/bin/python3" in ended.out


def test_both_onnx_runtimes_are_a_conflict(monkeypatch):
    monkeypatch.setattr(doctor, "version_of", lambda _name: "1.0")
    assert any("onnxruntime-gpu" in sentence for sentence in doctor.conflicts(None))
    monkeypatch.setattr(doctor, "version_of", lambda name: None if name == "onnxruntime" else "1.0")
    assert doctor.conflicts(None) == []


def test_a_missing_core_library_ends_with_4(edgetune, monkeypatch):
    real = doctor.version_of
    monkeypatch.setattr(doctor, "version_of", lambda name: None if name == "scipy" else real(name))
    ended = edgetune("doctor")
    assert ended.code == 4


def can(report):
    return {ability["what"]: ability for ability in report["abilities"]}


def test_a_board_says_what_it_is_and_what_may_be_done(edgetune, tmp_path):
    make_board(tmp_path / "board", "jetson-orin-nano-8gb", kernel="5.15")
    report = json.loads(edgetune("doctor", "--root", str(tmp_path / "board"), "--json").out)
    board = report["board"]
    assert (board["module"], board["soc"], board["l4t"], board["jetpack"]) == ("p3767-0003", "tegra234", "36.4.3", 6)
    assert board["power_mode"].startswith("15W (number 0 of /etc/nvpmodel")
    assert "fake kernel" in board["made_up"]
    states = {what: ability["state"] for what, ability in can(board).items()}
    assert states.pop("left by earlier runs") == "no"
    assert set(states.values()) == {"yes"}
    assert can(board)["read power"]["note"].startswith("ina3221:VDD_IN")
    assert can(board)["set CPU cores"]["note"] == "6 values, 1 to 6"
    assert (report["devices"], report["permissions"]) == ([], [])
    assert (report["guardian"]["state"], report["guardian"]["sudoers"]) == ("yes", None)


def test_an_unprivileged_user_learns_what_needs_root(tmp_path):
    make_board(tmp_path, "jetson-agx-orin-64gb", user="user")
    found = can(examine_board(tmp_path))
    assert {found[f"set {what}"]["state"] for what in ("CPU cores", "CPU clock", "GPU clock")} == {"as root"}
    assert (found["set memory clock"]["state"], "debugfs" in found["set memory clock"]["note"]) == ("as root", True)
    assert "cpu1/online is not writable" in found["set CPU cores"]["note"]
    assert found["read power"]["state"] == "yes"
    assert "set named modes" not in found


def test_settings_left_by_an_earlier_run_are_reported(edgetune, tmp_path):
    make_board(tmp_path)
    assert journal_row("jetson", tmp_path)["note"] == "every setting is as found"
    assert edgetune("device", "set", "jetson", "gpu_mhz=624.75", "--root", str(tmp_path)).code == 0
    assert journal_row("jetson", tmp_path)["state"] == "yes"
    assert journal_row("jetson", tmp_path)["note"].startswith("a mode set to stay: edgetune device restore jetson")
    (tmp_path / "var/lib/edgetune/jetson.run.json").touch()
    assert "was killed" in journal_row("jetson", tmp_path)["note"]


LINE = (
    r"nano ALL=(root) NOPASSWD: /opt/edgetune/bin/edgetune-guardian jetson, "
    r"/opt/edgetune/bin/edgetune-guardian jetson\?beyond-caps\=on, /opt/edgetune/bin/edgetune-guardian nvidia\:0"
)
GUARDED = ["jetson", "jetson?beyond-caps=on", "nvidia:0"]


def test_the_line_of_sudoers_allows_the_guardian_and_nothing_else():
    assert sudoers_line("nano", GUARDED, LAUNCHER) == LINE


@pytest.mark.skipif(shutil.which("visudo") is None, reason="sudo is not installed")
def test_visudo_accepts_the_line(tmp_path):
    (tmp_path / "sudoers").write_text(sudoers_line("#1000", [*GUARDED, "a\\b,c*[d]"], LAUNCHER) + "\n")
    (tmp_path / "sudoers").chmod(0o440)
    done = subprocess.run(["visudo", "-c", "-f", tmp_path / "sudoers"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def user(monkeypatch, tmp_path):
    """A user of a machine with sudo, who is not root."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sudo").write_text(f"#!/bin/sh\n: > {tmp_path}/tried\n")
    (tmp_path / "bin/sudo").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(pwd, "getpwuid", lambda _uid: pwd.struct_passwd(("nano", "", 1000, 1000, "", "", "")))


def environment(folder):
    """Make what ``pip install`` leaves: a script, the Python it names, a package."""
    for name in ("bin/python3", "lib/python3.10/site-packages/edgetune/__init__.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch(0o755)
    launcher = folder / "bin/edgetune-guardian"
    launcher.write_text(f"#!{folder}/bin/python3\n")
    launcher.chmod(0o755)
    return launcher


@pytest.mark.usefixtures("user")
def test_nothing_is_tried_and_nothing_is_installed(tmp_path):
    report = examine_guardian(GUARDED, Path("/"), tmp_path / "edgetune/bin/edgetune-guardian")
    assert report["state"] == "not tried"
    assert [line.split()[0] for line in report["install"]] == ["sudo", "sudo"]
    assert "'.[nvidia]'" in report["install"][1]
    assert report["sudoers"].startswith("nano ALL=(root) NOPASSWD: ")
    assert not (tmp_path / "tried").exists()
    assert not (tmp_path / "edgetune").exists()


@pytest.mark.usefixtures("user")
def test_an_installed_guardian_is_tried_by_the_user_alone(tmp_path):
    launcher = environment(tmp_path / "edgetune")
    report = examine_guardian(["jetson"], Path("/"), launcher)
    assert report["note"] == f"to see whether sudo allows it: sudo -n -l {launcher} jetson"
    assert report["install"] == []
    assert not (tmp_path / "tried").exists()


@pytest.mark.usefixtures("user")
def test_a_name_that_sudoers_could_misread_becomes_a_number(monkeypatch, tmp_path):
    for name in ("ALL", "DOMAIN\\nano", "%wheel"):
        entry = pwd.struct_passwd((name, "", 1000, 1000, "", "", ""))
        monkeypatch.setattr(pwd, "getpwuid", lambda _uid, entry=entry: entry)
        assert examine_guardian(["jetson"], Path("/"), tmp_path / "none")["sudoers"].startswith("#1000 ALL=(root)")


@pytest.mark.usefixtures("user")
def test_a_gpu_is_looked_at_without_its_guardian(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml([FakeGpu(refresh_ns=20_000_000, denied=True)]))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    report = doctor.examine(Path("/"))
    able = report["abilities"]["nvidia:0"]
    assert able["power"].startswith("nvml:")
    assert "no gpu_mhz: setting it needs root" in able["modes"]
    assert r"edgetune-guardian nvidia\:0" in report["guardian"]["sudoers"]
    assert not (tmp_path / "tried").exists()


def test_root_needs_no_line(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert examine_guardian(["jetson"], Path("/"), tmp_path / "none")["sudoers"] is None


def test_files_that_root_would_run_and_others_can_change_are_reported(monkeypatch, tmp_path):
    launcher = environment(tmp_path / "edgetune")
    module = tmp_path / "edgetune/lib/python3.10/site-packages/edgetune/__init__.py"
    assert module not in changeable(launcher) or os.geteuid() != 0
    module.chmod(0o775)
    assert module in changeable(launcher)
    module.chmod(0o755)
    clone = tmp_path / "clone"
    (clone / "edgetune").mkdir(parents=True)
    (clone / "edgetune/mine.py").touch()
    (clone / "edgetune/mine.py").chmod(0o666)
    module.parent.with_name("_edgetune.pth").write_text(f"import site\n{clone}\n")
    assert clone / "edgetune/mine.py" in changeable(launcher)
    launcher.write_text("#!" + "relative/python\n")
    monkeypatch.setattr("edgetune.workflows.device.guardian_permission._user", lambda: "nano")
    monkeypatch.setattr(shutil, "which", lambda _name: "/usr/bin/sudo")
    (warning,) = examine_guardian(["jetson"], Path("/"), launcher)["warnings"]
    assert "whoever can is root" in warning


def test_the_python_of_the_script_counts_wherever_its_links_lead(tmp_path):
    launcher = environment(tmp_path / "edgetune")
    mine = tmp_path / "home/python3"
    mine.parent.mkdir()
    mine.touch()
    mine.chmod(0o777)
    (tmp_path / "edgetune/bin/python3").unlink()
    (tmp_path / "edgetune/bin/python3").symlink_to(mine)
    assert mine in changeable(launcher)
