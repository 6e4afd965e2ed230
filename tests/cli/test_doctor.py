"""``edgetune doctor``: on a fake Jetson, on a machine that lacks a library, and on this one."""

import json
from pathlib import Path

import pytest

from edgetune.cli import doctor, libraries
from edgetune.devices.jetpack import Board, detect_board


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


@pytest.mark.parametrize(
    ("l4t", "revision", "jetpack"), [(32, "7.4", 4), (35, "4.1", 5), (36, "4.3", 6), (38, "2.0", 7), (99, "1.0", None)]
)
def test_the_jetpack_follows_from_the_release(tmp_path, l4t, revision, jetpack):
    board = detect_board(fake_jetson(tmp_path, release(l4t, revision)))
    assert board == Board("NVIDIA Jetson AGX Orin Developer Kit", f"{l4t}.{revision}", jetpack)


def test_a_jetson_without_a_release_file_is_told_by_its_device_tree(tmp_path):
    board = detect_board(fake_jetson(tmp_path, None))
    assert board is not None
    assert (board.l4t, board.jetpack) == (None, None)


def test_another_arm_board_is_no_jetson(tmp_path):
    assert detect_board(fake_jetson(tmp_path, None, compatible="raspberrypi,5-model-b\0")) is None


def test_a_bare_machine_is_no_jetson(tmp_path):
    assert detect_board(tmp_path) is None


def test_jetpack_6_gets_nvidias_wheels(tmp_path, monkeypatch):
    monkeypatch.setattr(libraries, "version_of", lambda _name: None)
    report = doctor.examine(fake_jetson(tmp_path, release(36, "4.3")))
    remedies = {library["name"]: library["remedy"] for library in report["libraries"]}
    assert remedies["torch"].startswith("pip install torch --index-url $JETSON_WHEELS")
    assert "/jp6/" in remedies["torch"]
    assert "onnxruntime-gpu" in remedies["onnxruntime"]
    assert "JETSON_WHEELS is the address" in report["install_on_this_board"][-1]
    assert report["board"]["jetpack"] == 6


def test_jetpack_5_says_why_the_gpu_is_out_of_reach(tmp_path, monkeypatch):
    monkeypatch.setattr(libraries, "version_of", lambda _name: None)
    report = doctor.examine(fake_jetson(tmp_path, release(35, "4.1")))
    remedies = {library["name"]: library["remedy"] for library in report["libraries"]}
    assert "JetPack 6" in remedies["torch"]


def test_elsewhere_an_extra_is_installed_by_its_name(monkeypatch):
    monkeypatch.setattr(libraries, "version_of", lambda _name: None)
    remedies = {library.name: library.remedy for library in libraries.inventory(None)}
    assert remedies["torch"] == "pip install 'edgetune[torch]'"
    assert remedies["numpy"] == "pip install edgetune"


def test_both_onnx_runtimes_are_a_conflict(monkeypatch):
    monkeypatch.setattr(libraries, "version_of", lambda _name: "1.0")
    assert any("onnxruntime-gpu" in sentence for sentence in libraries.conflicts(None))
    monkeypatch.setattr(libraries, "version_of", lambda name: None if name == "onnxruntime" else "1.0")
    assert libraries.conflicts(None) == []


def test_a_python_that_the_wheels_are_not_for_is_told(monkeypatch):
    monkeypatch.setattr(libraries, "version_of", lambda _name: None)
    board = Board("Jetson", "32.7.4", 4)
    assert any("Python" in sentence and "3.6" in sentence for sentence in libraries.conflicts(board))


def test_permissions_follow_the_files(tmp_path):
    assert {p["state"] for p in doctor.permissions(tmp_path)} == {"absent"}
    counter = tmp_path / "sys/class/powercap/intel-rapl:0/energy_uj"
    counter.parent.mkdir(parents=True)
    counter.write_text("1\n")
    assert doctor.permissions(tmp_path)[0] == {"what": "CPU power (RAPL)", "state": "yes", "note": str(counter)}


def test_the_report_is_for_people_and_for_machines(edgetune):
    people, machines = edgetune("doctor"), edgetune("doctor", "--json")
    assert (people.code, machines.code) == (0, 0)
    assert "twin:orin-agx" in people.out
    assert {device["name"] for device in json.loads(machines.out)["devices"]} >= {"host", "twin:orin-agx"}


def test_a_missing_core_library_ends_with_4(edgetune, monkeypatch):
    real = libraries.version_of
    monkeypatch.setattr(libraries, "version_of", lambda name: None if name == "scipy" else real(name))
    ended = edgetune("doctor")
    assert ended.code == 4
    assert "pip install edgetune" in ended.out


def test_what_each_device_can_do_is_said_with_the_reason_where_it_cannot():
    able = doctor.examine(Path("/"))["abilities"]
    assert {"host", "twin:orin-agx"} <= set(able)
    assert able["twin:orin-agx"]["modes"] == "cpu_cores, cpu_mhz, gpu_mhz, mem_mhz"
    assert able["twin:orin-agx"]["temperature"].startswith("no: the twin has no thermal model")
    assert "cpu_cores" in able["host"]["modes"]


def test_a_missing_library_of_the_core_does_not_silence_the_doctor(monkeypatch):
    def broken(_name):
        raise ImportError("No module named 'pydantic'")

    monkeypatch.setattr("edgetune.devices.discover.open_device", broken)
    assert doctor.abilities("twin:orin-agx") == {"anything": "no: No module named 'pydantic'"}
