"""Sweeps of a fake board: a real network on this machine's CPU, the guardian, the sensors, and the board put back."""

import errno
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.devices.cpu import usable_cpus
from edgetune.devices.modes import parse_modes
from edgetune.errors import DeviceError
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.sweep import sweep
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_jetson import MADE_UP, open_fake_jetson
from edgetune.testing.fake_kernel import FakeKernel
from edgetune.workloads.resolve import resolve

QUICK_MS = 100
"""Power renewed this often, the fastest that is asked for: a point then takes a second, not four."""

BOARDS = {
    "jetson-nano": ("4.9", "ina3221:POM_5V_IN"),
    "jetson-agx-orin-64gb": ("5.10", "ina3221:VDD_GPU_SOC+VDD_CPU_CV+VIN_SYS_5V0"),
    "jetson-orin-nano-8gb": ("5.15", "ina3221:VDD_IN"),
    "jetson-agx-thor": ("6.8", "ina238:VIN"),
}

NETWORK = """
    import time
    from pathlib import Path
    from edgetune.testing.fake_kernel import FakeKernel

    kernel, times_left = FakeKernel(Path({root!r})), Path({counter!r})

    def make(batch_size):
        return step

    def step():
        time.sleep(0.002)
        left = int(times_left.read_text())
        if left and {here}:
            times_left.write_text(str(left - 1))
            {act}
"""


@dataclass
class Bench:
    """A fake board, its settings before anything was done, and what is measured on it."""

    kernel: FakeKernel
    folder: Path
    before: dict[str, str]

    @property
    def device(self):
        return open_fake_jetson(self.kernel.root)

    def modes(self, text):
        return parse_modes(text, self.device.modes.space)

    def sweep(self, workload, task, modes, **options: Any):
        points = [Point(workload.name, task, 1, mode) for mode in modes]
        done = sweep(self.device, workload, points, ProfileOptions(**options), self.folder / "journal")
        assert self.kernel.settings() == self.before
        assert not list((self.kernel.root / "var/lib/edgetune").glob("*.json"))
        return done

    def network(self, act, *, times, here="True"):
        """Write a network whose minibatches do something to the board, so many times."""
        (self.folder / "times").write_text(str(times))
        words = {"root": str(self.kernel.root), "counter": str(self.folder / "times"), "act": act, "here": here}
        (self.folder / "net.py").write_text(textwrap.dedent(NETWORK).format(**words))
        return resolve(str(self.folder / "net.py"))


def bench(folder, board="jetson-orin-nano-8gb", **options: Any):
    kernel = make_board(folder / "board", board, **options)
    for path in kernel.glob("sys/class/hwmon/hwmon*/update_interval"):
        kernel.put(path, QUICK_MS)
    return Bench(kernel, folder, kernel.settings())


@pytest.fixture
def orin_nano(tmp_path):
    """An Orin Nano whose memory clock is out of reach: nothing then waits for it to settle."""
    return bench(tmp_path, kernel="5.15", debugfs="unmounted")


@pytest.mark.parametrize(
    "board",
    [
        "jetson-nano",
        pytest.param("jetson-agx-thor", marks=pytest.mark.slow),
        pytest.param("jetson-agx-orin-64gb", marks=pytest.mark.slow),
        pytest.param("jetson-orin-nano-8gb", marks=pytest.mark.slow),
    ],
)
def test_a_network_runs_in_onnx_runtime_with_power_heat_and_the_mode_read_back(tmp_path, monkeypatch, board):
    monkeypatch.setattr(
        "edgetune.devices.jetson.rails.DEFAULT_REFRESH_S", QUICK_MS / 1e3
    )  # the oldest driver tells none
    kernel, source = BOARDS[board]
    here = bench(tmp_path, board, kernel=kernel)
    (mode,) = here.modes(f"cpu_cores=1,gpu_mhz={here.device.modes.space.knobs['gpu_mhz'][1]}")
    profile = here.sweep(resolve("zoo:lstm"), "infer", [mode], minibatches=20)
    (row,) = profile.rows
    assert (row.status, row.device, row.power_source, row.minibatches) == ("ok", "jetson", source, 20)
    assert row.mode == mode
    assert row.minibatch_s > 0
    assert 0 < row.power_w <= row.power_peak_w
    assert row.energy_j > 0
    assert row.temp_start_c == pytest.approx(45.0, abs=1.0)  # as the fake is warm
    assert row.temp_max_c >= row.temp_start_c
    assert row.throttled is False or board == "jetson-nano"  # whose counters lie in debugfs
    found = profile.header.conditions
    assert (found["simulated"], found["made_up"]) == (True, MADE_UP)
    assert found["kernel"].startswith(kernel)
    assert found["module"].startswith("p")
    assert found["power_source"] == source
    assert set(source.partition(":")[2].split("+")) <= set(found["power_rails"])
    assert found["nvpmodel"]["mode"] == here.kernel.board.mode
    assert found["caps"]["gpu_mhz"] == max(here.device.modes.space.knobs["gpu_mhz"])
    assert found["fan"]
    for name in ("board", "jetpack", "l4t", "governors", "python", "onnxruntime"):
        assert found[name], name
    assert not profile.header.warnings


def test_a_network_is_loaded_with_the_clocks_found_and_the_cores_of_its_point(orin_nano):
    """At the lowest clocks loading PyTorch alone takes longer than the time limit of a point."""
    gpu, core = "sys/class/devfreq/17000000.gpu/max_freq", "sys/devices/system/cpu/cpu{}/online"
    seen = orin_nano.folder / "seen"
    here = f"[int(kernel.read({gpu!r})) // 10**6, *(kernel.read({core!r}.format(n)) for n in (1, 3))]"
    network = orin_nano.network("pass", times=0)
    source = network.path.read_text().replace("return step", f"seen('load', {here})\n    return step", 1)
    looks = f"    seen('run', {here})\n\ndef seen(when, what):\n    with open({str(seen)!r}, 'a') as f:\n"
    network.path.write_text(f"{source}\n{looks}        print(when, *what, file=f)\n")
    modes = [Mode(cpu_cores=cores, gpu_mhz=mhz) for cores, mhz in ((1, 306.0), (1, 408.0), (2, 306.0))]
    rows = orin_nano.sweep(resolve(str(network.path)), "train", modes, minibatches=2).rows
    assert [(row.status, row.mode.gpu_mhz) for row in rows] == [("ok", 306), ("ok", 408), ("ok", 306)]
    again = ["load 624 1 0"] if len(usable_cpus()) > 1 else []  # of cores that this machine has, threads are started
    lines = list(dict.fromkeys(seen.read_text().splitlines()))
    assert lines == ["load 624 0 0", "run 306 0 0", "run 408 0 0", *again, "run 306 1 0"]


def test_the_fan_is_at_its_maximum_while_a_point_is_measured(orin_nano):
    (pwm,) = orin_nano.kernel.glob("sys/class/hwmon/hwmon*/pwm1")
    network = orin_nano.network(f"assert kernel.read({pwm!r}) == '255'", times=1_000)
    profile = orin_nano.sweep(network, "train", [Mode()], minibatches=10, fan="max")  # which also finds it put back
    assert (profile.rows[0].status, profile.rows[0].reason) == ("ok", None)
    assert profile.header.conditions["options"]["fan"] == "max"


def test_a_mode_that_only_the_measured_clock_shows_is_not_held(orin_nano):
    network = orin_nano.network("kernel.throttle(True)", times=1)
    (row,) = orin_nano.sweep(network, "train", orin_nano.modes("cpu_mhz=1344"), minibatches=10, retries=0).rows
    assert (row.status, row.reason) == ("drifted", "the mode changed while it was measured: cpu_mhz is 672, not 1344")


def test_a_power_mode_that_somebody_chooses_ends_the_run_and_holds(tmp_path):
    """Somebody runs nvpmodel while the first point is measured: what the run may set came from the earlier mode."""
    orin = bench(tmp_path, "jetson-agx-orin-64gb", kernel="5.10", debugfs="unmounted")
    network = orin.network("kernel.nvpmodel('3')", times=1)
    with pytest.raises(DeviceError, match=r"changed during the run: .* nvpmodel mode 3 now"):
        orin.sweep(network, "train", orin.modes("gpu_mhz=1300.5"), minibatches=10)


def test_as_found_starts_no_guardian_and_writes_nothing(orin_nano, monkeypatch):
    def no_guardian(*_):
        raise AssertionError("a guardian was started")

    monkeypatch.setattr("edgetune.devices.guardian.client.GuardianProcess", no_guardian)
    orin_nano.kernel.forget_writes()
    network = orin_nano.network("pass", times=0)
    (row,) = orin_nano.sweep(network, "train", [Mode()], minibatches=10).rows
    assert (row.status, row.mode) == ("ok", Mode(cpu_cores=6))
    assert row.power_w > 0
    assert orin_nano.kernel.writes == []


def test_a_clock_that_the_kernel_refuses_fails_its_points_alone(orin_nano):
    modes = [Mode(), *orin_nano.modes("gpu_mhz=306")]
    orin_nano.kernel.deny_writing("sys/class/devfreq/17000000.gpu/min_freq", errno.EIO)
    network = orin_nano.network("pass", times=0)
    good, bad = orin_nano.sweep(network, "train", modes, minibatches=10).rows
    assert (good.status, bad.status) == ("ok", "failed")
    assert "gpu_mhz" in bad.reason or "min_freq" in bad.reason
