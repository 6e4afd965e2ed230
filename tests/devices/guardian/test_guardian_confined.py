"""The guardian as a program: isolated, and without rights that it does not need."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from edgetune.artifacts.mode import Mode
from edgetune.devices.guardian import client
from edgetune.devices.guardian.client import GuardianModes, guardian_command
from edgetune.testing.fake_files import KernelFiles
from edgetune.workflows.device.guardian_permission import changeable
from fakes.sysfs import add_cpufreq

SCRIPT = Path(client.__file__).with_name("edgetune-guardian.sh")


@pytest.fixture
def host(tmp_path):
    sysfs = KernelFiles(tmp_path / "host")
    add_cpufreq(sysfs, {0: (1_000_000, 2_000_000, 3_000_000)})
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


@pytest.mark.skipif(os.geteuid() != 0, reason="a file of somebody else than root takes root to make")
def test_the_python_beside_the_script_is_looked_at_too(installed):
    os.chown(installed.parent / "python3", 1000, 1000)
    assert installed.parent / "python3" in changeable(installed)
