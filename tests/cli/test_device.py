"""``edgetune device``, but for setting modes, and ``edgetune zoo``: lists, exports, every board, what is watched."""

import errno
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from datetime import datetime
from pathlib import Path

import pytest
from command_line import assert_two_lines
from terminal import Terminal

from edgetune.artifacts.mode import Mode
from edgetune.devices.jetson.catalog import board_names, load_board
from edgetune.devices.jetson.control import JetsonControl
from edgetune.devices.jetson.knobs import find_knobs, presets_of
from edgetune.devices.jetson.nvpmodel import read_nvpmodel
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import ExitCode
from edgetune.testing import fake_nvpmodel
from edgetune.testing.fake_board import make_board
from edgetune.workflows.device.options import WatchOptions
from edgetune.workflows.device.watch import exposition, open_watched
from edgetune.workloads.zoo import NETWORKS


def test_the_list_says_why_a_device_is_not_here(edgetune):
    ended = edgetune("device")
    assert ended.code == 0
    rows = {line.split()[0]: line for line in ended.out.splitlines() if line}
    assert " yes " in rows["host"]
    assert " yes " in rows["twin:orin-agx"]
    machine = json.loads(edgetune("device", "--json").out)
    assert all(item["available"] or item["reason"] for item in machine)


def test_a_device_says_what_it_can_do_and_why_not(edgetune):
    ended = edgetune("device", "twin:orin-agx")
    assert "SIMULATED" in ended.out
    facts = json.loads(edgetune("device", "twin:orin-agx", "--json").out)
    assert facts["capabilities"]["power"]["here"] == "yes"
    assert facts["capabilities"]["temperature"] == {"here": "no", "note": "the twin has no thermal model"}
    assert facts["modes"]["knobs"]["gpu_mhz"][-1] == 1300.5


def test_zoo_lists_every_network(edgetune):
    ended = edgetune("zoo")
    assert [line.split()[0] for line in ended.out.splitlines()] == ["name", *NETWORKS]
    assert [network["name"] for network in json.loads(edgetune("zoo", "--json").out)] == list(NETWORKS)
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in ended.out.splitlines()}
    assert rows["bert_base"].endswith("3 inputs of 128 arXiv:1810.04805")
    assert "image 3x224x224" in rows["resnet18"]


def test_zoo_exports_a_network(edgetune, tmp_path):
    import onnx

    target = tmp_path / "net.onnx"
    ended = edgetune("zoo", "export", "squeezenet", "-o", str(target), "--batch-size", "3")
    assert (ended.code, ended.out, ended.err) == (0, "", f"wrote {target}\n")
    shape = onnx.load(target).graph.input[0].type.tensor_type.shape
    assert [dimension.dim_value for dimension in shape.dim] == [3, 3, 224, 224]


# The mode of a plan for nvpmodel and sh, tried on a fake board

PLAN = (Path(__file__).parents[1] / "golden/plan-v1.yaml").read_text(encoding="utf-8")
MODE = Mode(8, 1344, 726.75, 2133)


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "plan.yaml").write_text(PLAN)
    return str(tmp_path / "plan.yaml")


@pytest.mark.parametrize("at_hand", [True, False])
def test_the_nvpmodel_block_parses_back_to_the_mode(edgetune, plan, tmp_path, at_hand):
    board = tmp_path / "board"
    make_board(board)
    block = edgetune("device", "export", plan, "--format", "nvpmodel", *(["--root", str(board)] if at_hand else []))
    assert "SIMULATED" in block.out
    conf = next((board / "etc/nvpmodel").iterdir())
    conf.write_text("\n".join([conf.read_text(encoding="utf-8"), block.out]), encoding="utf-8")
    sysfs = Sysfs(board)
    found = read_nvpmodel(sysfs)
    assert presets_of(found, find_knobs(sysfs).tables, {}).modes["EDGETUNE"] == MODE
    assert found.notes == ()
    assert all(line.startswith("#") or "#" not in line for line in block.out.splitlines()), "as in NVIDIA's files"


def test_the_shell_script_sets_the_mode_and_restores_it(edgetune, plan, tmp_path):
    board = tmp_path / "board"
    kernel = make_board(board)
    before = kernel.settings()
    script = str(tmp_path / "mode.sh")
    assert edgetune("device", "export", plan, "--format", "shell", "--root", str(board), "-o", script).code == 0

    (tmp_path / "sleep").write_text("#!/bin/sh\n")  # the files of this board answer at once
    (tmp_path / "sleep").chmod(0o755)
    environ = {**os.environ, "ROOT": str(board), "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def run(*words):
        return subprocess.run(["sh", script, *words], env=environ, check=False).returncode

    assert run("set") == 0
    assert JetsonControl(Sysfs(board)).read(measured=False) == MODE
    assert run("set") == 1
    assert run("restore") == 0
    assert kernel.settings() == before
    assert run("run", "sh", "-c", "exit 3") == 3
    assert kernel.settings() == before
    (board / "sys/devices/system/cpu/cpu9/online").unlink()
    (board / "sys/devices/system/cpu/cpu9/online").mkdir()
    assert run("set") == 1


def test_a_plan_without_a_mode_or_with_a_knob_that_the_device_lacks_is_refused(edgetune, plan, tmp_path):
    mode = "cpu_cores: 8, cpu_mhz: 1344, gpu_mhz: 726.75, mem_mhz: 2133"
    for wrong in ("", "power_limit_w: 30", "gpu_mhz: 727"):
        Path(plan).write_text(PLAN.replace(mode, wrong), encoding="utf-8")
        assert_two_lines(edgetune("device", "export", plan, "--format", "nvpmodel"), 2)


# Each board of the catalogue, with each of its kernels, through each command that opens a board

FAILING = {
    "sys/class/thermal/thermal_zone0/temp": errno.EIO,
    "sys/class/thermal/thermal_zone1/temp": errno.EAGAIN,
    "sys/class/hwmon/hwmon*/in2_input": errno.ENODATA,
    "sys/class/hwmon/hwmon*/rpm": errno.EIO,
    "sys/class/devfreq/*/cur_freq": errno.EINVAL,
    "sys/devices/system/cpu/cpufreq/policy*/scaling_cur_freq": errno.EIO,
}


def looks(edgetune, root):
    """Run the commands that set nothing, and return the settings on offer and the readings."""
    assert edgetune("doctor", *root).code == 0
    shown = json.loads(edgetune("device", "show", "jetson", *root, "--json").out)
    readings = json.loads(edgetune("device", "watch", "jetson", *root, "--count", "1").out)
    assert edgetune("profile", "--device", "jetson", *root, "--modes", "grid:2", "--dry-run", "--", "true").code == 0
    return {knob: values for knob, values in shown["modes"]["knobs"].items() if values}, readings


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kernel"), [(name, kernel) for name in board_names() for kernel in load_board(name).kernels]
)
def test_every_command_on_every_board_with_every_kernel(tmp_path, edgetune, name, kernel):
    board = make_board(tmp_path, name, kernel=kernel)
    before, root = board.settings(), ("--root", str(tmp_path))
    knobs, readings = looks(edgetune, root)
    assert set(knobs) == {"cpu_cores", "cpu_mhz", "gpu_mhz", "mem_mhz"}
    for pattern, error in FAILING.items():
        for path in board.glob(pattern):
            board.deny_reading(path, error)
    fake_nvpmodel.choose(board, board.board, str(board.board.presets.modes[-1].id))
    still, failing = looks(edgetune, root)
    assert set(still) == set(knobs)
    lost = [readings["clocks_mhz"][name] for name, mhz in failing["clocks_mhz"].items() if mhz is None]
    assert any(lost)
    assert {None} < set(failing["temperature_c"].values())
    slowest = ",".join(f"{knob}={values[0]:g}" for knob, values in still.items())
    assert edgetune("device", "set", "jetson", slowest, *root).code == 0
    assert board.settings() != before
    assert edgetune("device", "restore", "jetson", *root).code == 0
    assert board.settings() == before


def test_a_driver_that_does_not_answer_costs_its_readings_and_the_setting_of_modes(tmp_path, edgetune):
    board = make_board(tmp_path, "jetson-agx-thor")
    before, root = board.settings(), ("--root", str(tmp_path))
    board.deny_reading("sys/class/devfreq/gpu-gpc-0/min_freq", errno.EAGAIN)
    readings = json.loads(edgetune("device", "watch", "jetson", *root, "--count", "1").out)
    assert readings["clocks_mhz"]["gpu-gpc-0"]
    assert readings["power_w"]["VIN"]
    set_to = edgetune("device", "set", "jetson", "cpu_mhz=972", *root)
    assert_two_lines(set_to, ExitCode.DEVICE)
    assert edgetune("device", "restore", "jetson", *root).code == 0
    assert board.settings() == before


def test_a_container_that_hides_the_device_tree_hides_no_setting(tmp_path, edgetune):
    board = make_board(tmp_path, "jetson-orin-nano-8gb", kernel="5.15", container=True)
    root = ("--root", str(tmp_path))
    shown = looks(edgetune, root)[0]
    for path in ("proc/device-tree", "etc/nv_tegra_release"):
        board.remove(path)
    board.put(".dockerenv", "")
    for name, text in {"family": "Tegra", "soc_id": 35, "machine": "NVIDIA Jetson Orin Nano Developer Kit"}.items():
        board.put(f"sys/devices/soc0/{name}", text)
    assert looks(edgetune, root)[0] == shown


# Watched: a JSON document a line, in a pipe and in a terminal, until it is interrupted


@pytest.fixture
def root(tmp_path):
    return make_board(tmp_path / "board", "jetson-agx-orin-64gb", kernel="5.10").root


def test_each_reading_is_one_document_a_line(edgetune, root):
    ended = edgetune("device", "watch", "jetson", "--root", str(root), "--count", "3", "--interval", "10ms")
    assert (ended.code, ended.err) == (0, "")
    documents = [json.loads(line) for line in ended.out.splitlines()]
    assert len(documents) == 3
    times = [datetime.fromisoformat(document["time"]) for document in documents]
    assert times == sorted(times)
    assert times[0].tzinfo is not None
    for document in documents:
        assert document["device"] == "jetson"
        assert document["simulated"] is True
        assert document["mode"] == {"cpu_cores": 12, "cpu_mhz": None, "gpu_mhz": None, "mem_mhz": None}
        assert set(document["power_w"]) >= {"VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"}
        assert document["clocks_mhz"]["memory"] == 204.0
        assert all(30 < celsius < 60 for celsius in document["temperature_c"].values())


def test_a_reader_that_has_enough_ends_it_quietly(root):
    command = [sys.executable, "-m", "edgetune", "device", "watch", "--root", str(root), "--interval", "10ms"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert json.loads(process.stdout.readline())
    process.stdout.close()
    assert process.wait(60) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


def test_a_terminal_gets_the_same_lines_until_ctrl_c(root):
    terminal = Terminal(80)
    terminal.start("device", "watch", "--root", str(root), "--interval", "20ms", cwd=root)
    shown = terminal.read_until(b"\r\n")
    assert json.loads(shown.decode().splitlines()[0])["device"] == "jetson"
    terminal.type(b"\x03")
    assert terminal.process.wait(60) == 130
    assert "error" not in terminal.read_until(None).decode()


# Watched by Prometheus

SAMPLE = re.compile(r'([a-z_]+)\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)+)\} (\S+)')


@pytest.fixture
def watched(root):
    return open_watched(WatchOptions(name="jetson", root=str(root)))


def told(watched, groups):
    lines = exposition(watched, groups).splitlines()
    return {(m[1], m[2].split(",device=")[0]): float(m[3]) for m in map(SAMPLE.fullmatch, lines) if m is not None}


def test_every_sample_has_a_type_and_says_that_it_is_simulated(watched):
    text = exposition(watched, watched.read())
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert len(samples) > 20
    for line in samples:
        assert SAMPLE.fullmatch(line), line
        name = line.partition("{")[0]
        assert text.count(f"# TYPE {name} ") == text.count(f"# HELP {name} ") == 1
        assert 'device="jetson",simulated="true"' in line


def test_units_are_base_units(watched):
    groups = {
        "load_percent": {"gpu": 97.0},
        "clocks_mhz": {"gpu": 1300.5},
        "power_w": {"VDD_IN": 7.25, "gone": None},
        "temperature_c": {"tj": 50.5},
        "machine_memory_bytes": {"used": 25276514304},
        "throttling_events": {"oc3": 4},
        "throttling_now": {"devices": "cpu-throttle-alert"},
        "fan": {"speed_rpm": 2100, "pwm": 51, "profile": "quiet"},
    }
    found = told(watched, groups)
    found.pop(next(key for key in found if key[0] == "edgetune_device_info"))
    assert found == {
        ("edgetune_load_ratio", 'part="gpu"'): 0.97,
        ("edgetune_clock_hertz", 'clock="gpu"'): 1300.5e6,
        ("edgetune_power_watts", 'rail="VDD_IN"'): 7.25,
        ("edgetune_temperature_celsius", 'sensor="tj"'): 50.5,
        ("edgetune_machine_memory_bytes", 'kind="used"'): 25276514304,
        ("edgetune_throttling_events_total", 'counter="oc3"'): 4,
        ("edgetune_throttled", 'device="jetson",simulated="true"'): 1,
        ("edgetune_fan_rpm", 'device="jetson",simulated="true"'): 2100,
        ("edgetune_fan_duty_ratio", 'device="jetson",simulated="true"'): 0.2,
    }


def test_hostile_names_stay_inside_their_quotes(watched):
    text = exposition(watched, {"power_w": {'a"} 1\nb\\': 1.0}})
    (line,) = [line for line in text.splitlines() if line.startswith("edgetune_power")]
    assert SAMPLE.fullmatch(line)


def test_it_serves_on_the_loopback_address_and_ends_after_its_count(root):
    command = [sys.executable, "-m", "edgetune", "device", "watch", "jetson", "--root", str(root)]
    with subprocess.Popen(
        [*command, "--prometheus", "0", "--count", "2"], stderr=subprocess.PIPE, text=True
    ) as process:
        address = next(word for word in process.stderr.readline().split() if word.startswith("http"))
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            assert b"edgetune_power_watts{" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(address.removesuffix("metrics"), timeout=60)
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert answer.read().endswith(b"\n")
        assert process.wait(60) == 0
        assert process.stderr.read() == ""
