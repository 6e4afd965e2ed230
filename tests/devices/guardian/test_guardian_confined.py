"""The guardian as a program: isolated, without rights that it does not need, and behind a socket of systemd."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from toy_board import FOUND, HIGH, ToyControl, make_toy, plan_fault, toy_command

from edgetune.artifacts.mode import Mode
from edgetune.devices.guardian import client
from edgetune.devices.guardian.client import GuardianModes, guardian_command, left_behind, restore_through_guardian
from edgetune.devices.guardian.units import guardian_units
from edgetune.errors import DeviceError, NotRestoredError
from edgetune.workflows.device.guardian_permission import changeable
from fakes.sysfs import FakeSysfs, add_cpufreq

SCRIPT = Path(client.__file__).with_name("edgetune-guardian.sh")
PATIENCE_S = 60.0


@pytest.fixture
def kernel(tmp_path):
    return make_toy(tmp_path)


def wait_for(what):
    end_s = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < end_s
        time.sleep(0.02)


# The program.


@pytest.fixture
def host(tmp_path):
    sysfs = FakeSysfs(tmp_path / "host")
    add_cpufreq(sysfs, khz=(1_000_000, 2_000_000, 3_000_000))
    return sysfs


@pytest.fixture
def installed(tmp_path):
    """Return the script as an installation has it: beside a Python that knows edgetune."""
    folder = tmp_path / "opt/bin"
    folder.mkdir(parents=True)
    shutil.copy(SCRIPT, folder / "edgetune-guardian")
    (folder / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (folder / "python3").chmod(0o755)
    return folder / "edgetune-guardian"


def hello(process):
    process.stdin.write(b'{"id": 1, "request": "hello"}\n')
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def status_of(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def test_it_gives_up_descriptors_environment_folder_core_dumps_and_every_capability(host, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("of the caller")
    with secret.open() as inherited:
        process = subprocess.Popen(
            guardian_command("host", host.root), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path,
            env={**os.environ, "SECRET": "x", "PYTHONPATH": "/evil"}, pass_fds=[inherited.fileno()],
        )  # fmt: skip
    assert hello(process)["ok"]
    running, status = psutil.Process(process.pid), status_of(process.pid)
    assert str(secret) not in [file.path for file in running.open_files()]
    assert running.cwd() == "/"
    assert os.getsid(process.pid) == process.pid
    assert running.rlimit(psutil.RLIMIT_CORE) == (0, 0)
    assert status["Umask"] == "0077"
    if sys.platform == "linux":
        assert [int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")] == [0] * 4
        assert status["NoNewPrivs"] == "1"
    process.communicate()
    assert process.returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to give up")
def test_without_capabilities_it_still_sets_and_puts_back_what_root_owns(host):
    modes = GuardianModes(guardian_command("host", host.root))
    assert modes.apply(Mode(cpu_mhz=2000)) == Mode(cpu_mhz=2000)
    assert (host.root / "var/lib/edgetune/host.run.json").stat().st_mode & 0o777 == 0o600
    modes.restore()
    assert not (host.root / "var/lib/edgetune/host.run.json").exists()


@pytest.mark.parametrize("flags", [[], ["-E"], ["-s"], ["-P"] if sys.version_info >= (3, 11) else ["-s"]])
def test_it_does_not_start_with_the_callers_modules(flags):
    ended = subprocess.run(
        [sys.executable, *flags, "-m", "edgetune.devices.guardian", "host"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: the guardian was started with the caller's environment and modules\nhint: ")


def test_the_script_starts_it_isolated_whatever_the_caller_has(installed, host, tmp_path):
    evil = tmp_path / "evil"
    evil.mkdir()
    for name in ("json", "edgetune", "sitecustomize", "usercustomize", "argparse"):
        (evil / f"{name}.py").write_text("raise SystemExit('imported')")
    for name in ("readlink", "env", "python3"):
        (evil / name).write_text("#!/bin/sh\necho taken from the caller\n")
        (evil / name).chmod(0o755)
    hostile = {
        "PATH": str(evil), "PYTHONPATH": str(evil), "PYTHONHOME": str(evil), "PYTHONSTARTUP": str(evil / "json.py"),
        "LD_LIBRARY_PATH": str(evil), "ENV": str(evil / "env"), "BASH_ENV": str(evil / "env"), "IFS": "/",
    }  # fmt: skip
    link = evil / "edgetune-guardian"
    link.symlink_to(installed)
    for start in (installed, link):
        ended = subprocess.run(
            [start, "host", "--restore", "--root", str(host.root)],
            cwd=evil, env=hostile, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, '{"recovered": []}\n', "")


def test_through_sudo_the_script_lets_no_other_tree_be_named(installed, host):
    ended = subprocess.run(
        [installed, "host", "--root", str(host.root)], env={"SUDO_UID": "1000"}, capture_output=True, check=False
    )
    assert ended.returncode == 2
    assert b"--root is not allowed through sudo" in ended.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="a file of somebody else than root takes root to make")
def test_the_python_beside_the_script_is_looked_at_too(installed):
    os.chown(installed.parent / "python3", 1000, 1000)
    assert installed.parent / "python3" in changeable(installed)


# Behind a socket.

LISTENER = shutil.which("systemd-socket-activate")


@pytest.fixture
def socket(kernel):
    """Return a socket behind which a guardian of the toy board is started for each connection, as systemd does."""
    if LISTENER is None:
        pytest.skip("systemd-socket-activate is not installed")
    path = kernel.root / "guardian.sock"
    command = [LISTENER, "--accept", "--inetd", f"--listen={path}", *toy_command(kernel.root)]
    listener = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    wait_for(path.exists)
    yield path
    for process in (*psutil.Process(listener.pid).children(recursive=True), psutil.Process(listener.pid)):
        process.kill()
    listener.wait()


@pytest.fixture
def relayed(socket):
    return [sys.executable, "-I", "-m", "edgetune.devices.guardian.relay", str(socket)]


def guardian_behind(socket):
    return next(
        process
        for process in psutil.process_iter(["cmdline", "name"])  # None for one that has just ended
        if "toy_board.py" in " ".join(process.info["cmdline"] or ()) and "systemd" not in process.info["name"]
        if str(socket.parent) in process.info["cmdline"]
    )


def test_over_a_socket_modes_are_set_and_put_back_as_over_pipes(kernel, relayed):
    modes = GuardianModes(relayed, ToyControl(kernel))
    assert modes.apply(Mode(gpu_mhz=200, mem_mhz=1600)) == Mode(gpu_mhz=200, mem_mhz=1600)
    with pytest.raises(DeviceError, match="toy offers no gpu_mhz of 201"):
        modes.apply(Mode(gpu_mhz=201))
    modes.keep()
    assert kernel.settings()[HIGH] == "200"
    assert "a mode was left in place" in left_behind(relayed)[0]
    assert "a mode was left in place" in restore_through_guardian(relayed)[0]
    assert kernel.settings() == FOUND


def test_over_a_socket_what_could_not_be_put_back_ends_with_6(kernel, relayed):
    for write in range(4, 40):
        plan_fault(kernel.root, write, "EBUSY")
    modes = GuardianModes(relayed)
    modes.apply(Mode(gpu_mhz=200))
    with pytest.raises(NotRestoredError, match="toy is not as it was found") as failed:
        modes.restore()
    assert failed.value.hint.startswith("run `edgetune device restore toy`")
    assert len(restore_through_guardian(relayed)) == 1
    assert kernel.settings() == FOUND


@pytest.mark.parametrize("whom", ["relay", "guardian"])
def test_over_a_socket_whoever_is_killed_the_board_is_put_back(kernel, socket, relayed, whom):
    modes = GuardianModes(relayed)
    modes.apply(Mode(gpu_mhz=200))
    if whom == "relay":
        os.kill(modes._guardian.pid, signal.SIGKILL)
    else:
        guardian_behind(socket).kill()
    modes.restore()
    wait_for(lambda: kernel.settings() == FOUND and not (kernel.root / "var/lib/edgetune/toy.run.json").exists())


def test_a_socket_that_nobody_listens_on_is_two_lines(tmp_path):
    with pytest.raises(DeviceError, match="does not answer: No such file or directory") as failed:
        GuardianModes([sys.executable, "-I", "-m", "edgetune.devices.guardian.relay", str(tmp_path / "x")]).apply(
            Mode(gpu_mhz=200)
        )
    assert "without the socket, edgetune asks sudo" in failed.value.hint


def test_a_user_who_may_use_the_socket_needs_no_sudo(tmp_path, socket, monkeypatch):
    monkeypatch.setattr(client, "holds_root", lambda: False)
    monkeypatch.setattr(client, "SOCKETS", tmp_path)
    socket.rename(tmp_path / "guardian-nvidia-0.sock")
    assert guardian_command("nvidia:0")[1:] == [
        "-I", "-m", "edgetune.devices.guardian.relay", str(tmp_path / "guardian-nvidia-0.sock")
    ]  # fmt: skip
    assert guardian_command("jetson")[0] == "sudo"
    assert guardian_command("nvidia:0?x")[0] == "sudo"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert guardian_command("nvidia:0")[0] == "sudo"


# The units.


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("device", ["jetson", "nvidia:0"])
def test_systemd_takes_the_units_and_finds_little_exposed(tmp_path, device):
    launcher = tmp_path / "edgetune-guardian"
    launcher.write_text("#!/bin/sh\n")
    launcher.chmod(0o755)
    files = []
    for name, text in guardian_units(device, launcher).items():
        (tmp_path / name).write_text(text)
        files.append(tmp_path / name.replace("@.", "@1."))
        files[-1].write_text(text)
    told = subprocess.run(["systemd-analyze", "verify", *files], capture_output=True, text=True, check=False)
    assert (told.returncode, [line for line in told.stderr.splitlines() if "edgetune" in line]) == (0, [])
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", files[-1]], capture_output=True, check=False
    )
    assert rated.returncode == 0 or b"offline" in rated.stderr, rated.stdout


def test_the_sandbox_leaves_a_board_no_capability_and_a_gpu_one():
    texts = [guardian_units(device, client.LAUNCHER) for device in ("jetson", "nvidia:0")]
    for units, kept in zip(texts, ("", "CAP_SYS_ADMIN"), strict=True):
        services = [text for name, text in units.items() if name.endswith(".service")]
        assert len(services) == 2
        for text in services:
            assert f"\nCapabilityBoundingSet={kept}\n" in text
            assert "\nExecStart=/opt/edgetune/bin/edgetune-guardian " in text
