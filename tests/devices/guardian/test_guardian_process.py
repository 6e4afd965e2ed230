"""Guardians as real processes: parents and guardians killed, signals, pipes that nobody reads, closed streams."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from toy_board import FOUND, HIGH, ToyControl, make_toy, toy_command

from contracts.device_contract import DeviceContract
from edgetune.artifacts.mode import Mode
from edgetune.devices.guardian import conversation, program
from edgetune.devices.guardian.client import GuardianModes, guardian_command, restore_through_guardian
from edgetune.devices.guardian.conversation import GuardianProcess
from edgetune.devices.guardian.program import shun_oom_killer
from edgetune.devices.host import open_host
from edgetune.errors import DeviceError, NotRestoredError
from edgetune.processes.messages import ReplyLines
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_files import KernelFiles
from edgetune.testing.fake_jetson import fake_guardian_command
from fakes.guardian_calls import apply_line, request_line
from fakes.sysfs import add_cpufreq

FAST = Mode(gpu_mhz=200, mem_mhz=1600)
PATIENCE_S = 60.0
PARENT = """
import subprocess, sys, time
from edgetune.artifacts.mode import Mode
from edgetune.devices.guardian.program import shun_oom_killer
from edgetune.devices.guardian.client import GuardianModes
modes = GuardianModes(sys.argv[1:])
modes.apply(Mode(gpu_mhz=200))
quiet = subprocess.DEVNULL
worker = subprocess.Popen(["sleep", "60"], stdout=quiet, stderr=quiet)  # it must not hold the guardian's pipes open
print(worker.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def kernel(tmp_path):
    return make_toy(tmp_path)


@pytest.fixture
def guarded(kernel):
    opened = GuardianModes(toy_command(kernel.root), ToyControl(kernel))
    yield opened
    opened.restore()


def start(command, **options):
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def reply(process):
    return json.loads(process.stdout.readline())


def wait_until_as_found(kernel):
    end_s = time.monotonic() + PATIENCE_S
    while kernel.settings() != FOUND or (kernel.root / "var/lib/edgetune/toy.run.json").exists():
        assert time.monotonic() < end_s, kernel.settings()
        time.sleep(0.02)


def test_the_board_is_put_back_when_the_measuring_process_is_killed(kernel):
    parent = start([sys.executable, "-c", PARENT, *toy_command(kernel.root)])
    worker = int(parent.stdout.readline())
    try:
        assert kernel.settings()[HIGH] == "200"
        parent.kill()
        parent.communicate()
        wait_until_as_found(kernel)
    finally:
        os.kill(worker, signal.SIGKILL)


@pytest.mark.parametrize("write", [1, 2, 3])
def test_a_guardian_killed_while_it_sets_a_mode_is_followed_by_one_that_puts_it_back(kernel, guarded, write):
    kernel.fail_at(write, "SIGKILL")
    with pytest.raises(DeviceError, match="was killed by SIGKILL") as failed:
        guarded.apply(FAST)
    assert failed.value.hint == "the board is as it was found: run the command again"
    wait_until_as_found(kernel)
    assert guarded.apply(FAST) == FAST


def test_one_killed_while_it_puts_back_is_followed_by_one_that_does(kernel, guarded):
    kernel.fail_at(5, "SIGKILL")
    guarded.apply(FAST)
    guarded.restore()
    wait_until_as_found(kernel)


def test_when_no_guardian_can_put_it_back_that_is_said(kernel):
    modes = GuardianModes(toy_command(kernel.root))
    modes.apply(FAST)
    os.kill(modes._guardian.pid, signal.SIGKILL)
    modes.command[:] = ["/no/such/program"]
    with pytest.raises(NotRestoredError, match="could not be put back") as failed:
        modes.restore()
    assert "edgetune device restore" in failed.value.hint
    modes.restore()
    assert len(restore_through_guardian(toy_command(kernel.root))) == 1
    wait_until_as_found(kernel)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_puts_back_and_ends_with_0(kernel, number):
    process = start(toy_command(kernel.root))
    process.stdin.write(apply_line(1, gpu_mhz=200))
    process.stdin.flush()
    assert reply(process)["ok"]
    process.send_signal(number)
    assert process.wait(PATIENCE_S) == 0
    assert process.communicate()[1] == b""
    wait_until_as_found(kernel)


@pytest.mark.parametrize("write", [1, 3, 5])
def test_a_signal_it_gets_while_it_writes_puts_back_and_ends_with_0(kernel, write):
    kernel.fail_at(write, "SIGTERM")
    process = start(toy_command(kernel.root))
    process.communicate(apply_line(1, gpu_mhz=200, mem_mhz=1600))
    assert process.returncode == 0
    wait_until_as_found(kernel)


def test_a_hangup_that_is_ignored_does_not_end_it(kernel):
    process = start(["nohup", *toy_command(kernel.root)])
    process.stdin.write(request_line(1, "hello"))
    process.stdin.flush()
    assert reply(process)["ok"]
    process.send_signal(signal.SIGHUP)
    process.stdin.write(request_line(2, "read"))
    process.stdin.flush()
    assert reply(process)["id"] == 2
    process.communicate()
    assert process.returncode == 0


def test_a_parent_that_never_reads_cannot_keep_it_from_hearing_a_signal(kernel):
    process = start(toy_command(kernel.root))
    process.stdin.write(apply_line(0, gpu_mhz=200))
    process.stdin.write(b"".join(request_line(number, "hello") for number in range(1, 1000)))  # replies fill the pipe
    process.stdin.flush()
    end_s = time.monotonic() + PATIENCE_S
    while kernel.settings()[HIGH] != "200":
        assert time.monotonic() < end_s
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0
    process.communicate()
    wait_until_as_found(kernel)


def test_a_guardian_that_comes_while_another_still_works_waits_for_it(kernel):
    first = start(toy_command(kernel.root))
    first.stdin.write(apply_line(1, gpu_mhz=200))
    first.stdin.flush()
    assert reply(first)["ok"]
    second = start(toy_command(kernel.root))
    second.stdin.write(request_line(1, "read"))
    second.stdin.flush()
    first.communicate()
    assert reply(second)["mode"] == {"mem_mhz": 800.0}, "the board as found, not the mode of the first"
    second.communicate()
    assert (first.returncode, second.returncode) == (0, 0)


def test_what_could_not_be_put_back_reaches_the_caller(kernel):
    for write in range(4, 40):
        kernel.fail_at(write, "EBUSY")
    modes = GuardianModes(toy_command(kernel.root))
    modes.apply(FAST)
    with pytest.raises(NotRestoredError, match=r"toy is not as it was found: /sys/toy/gpu/min_freq is 200, was 100; "):
        modes.restore()
    modes.restore()
    kernel.forget_faults()
    later = GuardianModes(toy_command(kernel.root))
    assert later.space.knobs
    assert "was killed" in later.recovered[0]
    later.restore()
    wait_until_as_found(kernel)


# The side that asks.


class TestContract(DeviceContract):
    @pytest.fixture
    def device(self, kernel):
        return replace(open_host(), modes=GuardianModes(toy_command(kernel.root), ToyControl(kernel)))


def test_as_found_needs_no_guardian(kernel):
    modes = GuardianModes(["/no/such/program"], ToyControl(kernel))
    assert modes.space.knobs
    assert modes.apply(Mode()) == Mode(mem_mhz=800)
    assert modes.read() == Mode(mem_mhz=800)
    modes.restore()


def test_the_space_comes_from_the_guardian_when_nobody_else_tells_it(kernel):
    modes = GuardianModes(toy_command(kernel.root))
    assert modes.space == ToyControl(kernel).space
    modes.restore()


def test_errors_keep_their_class_message_and_hint(guarded):
    with pytest.raises(DeviceError, match="toy offers no gpu_mhz of 201") as refused:
        guarded.apply(Mode(gpu_mhz=201))
    assert refused.value.hint == "the nearest value is 200; `edgetune device toy` lists what it can set"


def test_a_reply_that_nobody_waited_for_is_not_taken_for_the_next_one(kernel, monkeypatch):
    guardian = GuardianProcess(toy_command(kernel.root), PATIENCE_S)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ReplyLines, "next", interrupted)
        with pytest.raises(KeyboardInterrupt):
            guardian.ask("apply", mode={"gpu_mhz": 200})
    assert guardian.ask("read")["mode"] == {"gpu_mhz": 200.0, "mem_mhz": 800.0}
    assert guardian.end() == 0
    assert guardian.end() == 0


def test_a_guardian_that_does_not_answer_is_an_error_and_still_puts_back(kernel):
    kernel.fail_at(2, "SIGSTOP")
    modes = GuardianModes(toy_command(kernel.root), patience_s=0.5)
    with pytest.raises(DeviceError, match=r"has not answered for 0\.5 s"):
        modes.apply(FAST)
    os.kill(modes._guardian.pid, signal.SIGCONT)
    modes.restore()
    wait_until_as_found(kernel)


def sudo(tmp_path, monkeypatch, script):
    program = tmp_path / "bin/sudo"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr("edgetune.devices.guardian.client.LAUNCHER", tmp_path / "edgetune-guardian")
    return guardian_command("jetson")


def test_a_user_asks_sudo_for_exactly_one_line(tmp_path, monkeypatch):
    command = sudo(tmp_path, monkeypatch, "exit 1")
    assert command == ["sudo", "-n", sys.executable, "-I", "-m", "edgetune.devices.guardian", "jetson"]
    (tmp_path / "edgetune-guardian").touch()
    assert guardian_command("jetson") == ["sudo", "-n", str(tmp_path / "edgetune-guardian"), "jetson"]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert guardian_command("jetson") == command[2:]
    assert guardian_command("jetson", tmp_path) == [*command[2:], "--root", str(tmp_path)]


@pytest.mark.parametrize(
    "said", ["sudo: a password is required", "Sorry, user nano may not run sudo on ubuntu.", "sudo: unknown user nano"]
)
def test_when_sudo_refuses_the_error_says_what_allows_it(tmp_path, monkeypatch, said):
    modes = GuardianModes(sudo(tmp_path, monkeypatch, f"echo '{said}' >&2; exit 1"))
    with pytest.raises(DeviceError) as refused:
        modes.apply(FAST)
    assert refused.value.message == f"setting modes needs root, and sudo refused: {said.removeprefix('sudo: ')}"
    assert refused.value.hint == "`edgetune doctor` prints the line that allows it; or leave the mode as found"


def test_sudo_stays_in_the_session_of_its_user_where_no_key_reaches_its_group(tmp_path, kernel, monkeypatch):
    sudo(tmp_path, monkeypatch, 'shift; exec "$@"')
    guardian = GuardianProcess(["sudo", "-n", *toy_command(kernel.root)], PATIENCE_S)
    assert guardian.ask("read")["ok"]
    assert os.getsid(guardian.pid) == os.getsid(0), "the ticket of sudo -v is of the session"
    assert os.getpgid(guardian.pid) == guardian.pid != os.getpgrp()
    assert guardian.end() == 0


def test_without_sudo_the_error_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError, match="sudo: No such file or directory"):
        GuardianModes(["sudo", "-n", "true"]).apply(FAST)


def test_an_installation_that_root_does_not_see_is_named(tmp_path, monkeypatch):
    command = sudo(tmp_path, monkeypatch, "echo '/usr/bin/python3: No module named edgetune' >&2; exit 1")
    with pytest.raises(DeviceError, match="No module named edgetune") as failed:
        GuardianModes(command).apply(FAST)
    assert "--user" in failed.value.hint


def test_a_guardian_of_another_version_is_not_used(tmp_path):
    answer = 'import sys; sys.stdin.readline(); print(\'{"id": 1, "ok": true, "protocol": 99}\', flush=True)'
    modes = GuardianModes([sys.executable, "-c", answer])
    with pytest.raises(DeviceError, match="another version"):
        modes.apply(FAST)
    modes.restore()


# The program.


def guardian(*arguments, environment=None, **options):
    command = [sys.executable, "-I", "-m", "edgetune.devices.guardian", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False, **options)


@pytest.fixture
def host(tmp_path):
    sysfs = KernelFiles(tmp_path)
    add_cpufreq(sysfs, {0: (1_000_000, 2_000_000, 3_000_000)})  # to others plain files: values of equal length
    return sysfs


LIMITS = [f"sys/devices/system/cpu/cpufreq/policy0/scaling_{end}_freq" for end in ("min", "max")]


def test_the_clock_of_a_host_is_put_back_when_its_measuring_process_is_killed(host):
    parent = PARENT.replace("gpu_mhz=200", "cpu_mhz=2000")
    process = start([sys.executable, "-c", parent, *guardian_command("host", host.root)])
    worker = int(process.stdout.readline())
    os.kill(worker, signal.SIGKILL)
    assert [host.read(path) for path in LIMITS] == ["2000000", "2000000"]
    process.kill()
    process.communicate()
    end_s = time.monotonic() + PATIENCE_S
    while [host.read(path) for path in LIMITS] != ["1000000", "3000000"]:
        assert time.monotonic() < end_s
        time.sleep(0.02)


def test_the_host_sets_its_clock_through_a_guardian(host, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    modes = open_host(host.root).modes
    assert modes.apply(Mode(cpu_cores=1, cpu_mhz=2000)) == Mode(cpu_cores=1, cpu_mhz=2000)
    assert (host.root / "var/lib/edgetune/host.run.json").exists()
    with pytest.raises(DeviceError, match="host offers no cpu_mhz of 2001"):
        modes.apply(Mode(cpu_mhz=2001))
    modes.restore()
    assert [host.read(path) for path in LIMITS] == ["1000000", "3000000"]
    assert not (host.root / "var/lib/edgetune/host.run.json").exists()
    modes.restore()


def test_a_fake_board_is_guarded_as_a_real_one(tmp_path):
    kernel = make_board(tmp_path / "root", "jetson-nano")
    found = kernel.settings()
    modes = GuardianModes(fake_guardian_command(kernel.root))
    mode = Mode(cpu_cores=2, gpu_mhz=modes.space.knobs["gpu_mhz"][0])
    kernel.fail_at(3, "kill-after")
    with pytest.raises(DeviceError, match="ended with exit code 1"):
        modes.apply(mode)
    assert kernel.settings() == found
    assert modes.apply(mode).knobs().items() >= mode.knobs().items()
    modes.restore()
    assert kernel.settings() == found


def test_ctrl_c_in_the_terminal_is_for_the_parent_to_answer(kernel, guarded):
    guarded.apply(FAST)
    held = kernel.settings()
    os.kill(guarded._guardian.pid, signal.SIGINT)  # as the terminal sends it to every process of its group
    assert guarded.read() == FAST
    assert kernel.settings() == held


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["teapot"], 2, "error: the guardian sets no modes of 'teapot'"),
        ([], 2, "error: the following arguments are required: device"),
        (["host", "--write", "/etc/passwd"], 2, "error: unrecognized arguments"),
        (["../../etc"], 2, "error: the guardian sets no modes"),
        (["jetson"], 4, "error: this machine is not a Jetson"),
    ],
)
def test_what_it_cannot_do_is_two_lines_and_an_exit_code(tmp_path, arguments, code, error):
    ended = guardian(*arguments, "--root", str(tmp_path), stdin=subprocess.DEVNULL)
    assert (ended.returncode, ended.stdout) == (code, "")
    first, second = ended.stderr.splitlines()
    assert first.startswith(error)
    assert second.startswith("hint: ")


def test_what_a_host_cannot_put_back_without_cpufreq_is_not_restored(host):
    modes = GuardianModes(guardian_command("host", host.root))
    modes.apply(Mode(cpu_mhz=2000))
    modes.keep()
    shutil.rmtree(host.root / "sys/devices/system/cpu/cpufreq")
    ended = guardian("host", "--restore", "--root", str(host.root))
    assert ended.returncode == 6
    assert "is not put back to 1000000 and 3000000: this kernel offers no cpufreq" in ended.stderr


def test_of_a_command_that_is_stopped_the_board_is_put_back_after_a_time(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(program, "SILENCE_S", 0.2)
    kernel = make_toy(tmp_path)
    (asked, ask), (told, tell) = os.pipe(), os.pipe()
    os.write(ask, b"\n" + apply_line(1, gpu_mhz=200) + b"\n")
    code = program.run("toy", lambda *_: ToyControl(kernel), tmp_path, requests=asked, replies=tell)
    replies = os.read(told, 1 << 16).splitlines()
    for descriptor in (asked, ask, told, tell):
        os.close(descriptor)
    assert (code, len(replies), kernel.settings()) == (4, 1, FOUND), "heartbeats have no reply"
    assert kernel.writes, "the mode was set"
    assert "nothing was heard of the command that set its mode for 0.2 s" in capfd.readouterr().err


def test_a_guardian_hears_of_its_client_while_that_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(conversation, "HEARTBEAT_S", 0.01)
    make_toy(tmp_path)
    guarded, sent = GuardianProcess(toy_command(tmp_path), PATIENCE_S), []
    pipe = guarded._requests
    monkeypatch.setattr(guarded, "_requests", SimpleNamespace(write=lambda line: (sent.append(line), pipe.write(line)),
                                                             close=pipe.close))  # fmt: skip
    while sent.count(b"\n") < 3:
        assert guarded.ask("read")["ok"]
    assert guarded.end() == 0


def test_through_sudo_no_other_tree_can_be_named(host):
    ended = guardian("host", "--root", str(host.root), environment={**os.environ, "SUDO_UID": "1000"})
    assert ended.returncode == 2
    assert "--root is not allowed through sudo" in ended.stderr


def test_nothing_of_the_callers_environment_or_folder_is_imported(host, tmp_path):
    evil = tmp_path / "evil"
    evil.mkdir()
    for name in ("json", "edgetune", "sitecustomize", "argparse"):
        (evil / f"{name}.py").write_text("raise SystemExit('imported')")
    ended = guardian(
        "host", "--restore", "--root", str(host.root), cwd=evil, environment={**os.environ, "PYTHONPATH": str(evil)}
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, '{"recovered": []}\n', "")


def test_closed_streams_do_not_become_its_files(host):
    script = 'exec "$@" <&- >&- 2>&-'
    command = ["sh", "-c", script, "sh", *guardian_command("host", host.root)]
    assert subprocess.run(command, check=False).returncode == 0
    assert [host.read(path) for path in LIMITS] == ["1000000", "3000000"]


@pytest.mark.parametrize("error", [None, PermissionError, FileNotFoundError])
def test_it_asks_to_be_the_last_that_the_kernel_ends_and_goes_on_where_it_may_not(monkeypatch, error):
    asked = []

    def write(self, text):
        asked.append((str(self), text))
        if error:
            raise error

    monkeypatch.setattr(Path, "write_text", write)
    shun_oom_killer()
    assert asked == [("/proc/self/oom_score_adj", "-1000")]


BESIDE_THE_GUARDIAN = {
    "artifacts", "artifacts.columns", "artifacts.file_operations", "artifacts.mode", "errors", "processes",
    "processes.file_lock", "processes.privilege", "processes.streams", "processes.user_folders",
    "units", "version", "visible",
    *(f"devices{name}" for name in ("", ".capabilities", ".control", ".jetson", ".jetson.detect", ".sysfs")),
}  # fmt: skip
BOARD_FILES = {"devices.board_files", "choices", "limits", "units"}
LOADED = {
    "jetson": {
        *BOARD_FILES,
        *(f"devices.jetson.{name}" for name in ("control", "cpu", "emc", "gpu", "knobs", "nvpmodel")),
        *(f"devices.jetson.{name}" for name in ("nvpmodel_grammar", "restore", "throttle")),
    },
    "host": {*BOARD_FILES, "devices.cpufreq"},
    "nvidia:0": {"devices.nvml", "devices.nvml.control", "devices.nvml.gpu"},
}


@pytest.mark.parametrize("device", LOADED)
def test_it_imports_no_more_than_it_needs_and_nothing_heavy(tmp_path, device):
    make_board(tmp_path / "root", "jetson-nano")
    script = (
        "import contextlib, pathlib, sys, edgetune.devices.guardian.__main__ as program\n"
        "with contextlib.suppress(program.EdgetuneError):\n"
        "    program.open_control(sys.argv[1], pathlib.Path(sys.argv[2]))\n"
        "print(*sys.modules)"
    )
    command = [sys.executable, "-I", "-c", script, device, str(tmp_path / "root")]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    heavy = {"numpy", "scipy", "pyarrow", "torch", "onnx", "onnxruntime", "pandas", "psutil", "typer", "rich", "yaml"}
    ours = {name.removeprefix("edgetune.") for name in loaded if name.startswith("edgetune.")}
    assert {name for name in ours if not name.startswith("devices.guardian")} == BESIDE_THE_GUARDIAN | LOADED[device]
    assert not heavy & loaded
