"""The child process: what it answers, how it is stopped, and how its end is told."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict

import pytest

from edgetune.errors import InputError
from edgetune.processes.child import Child

WORKER = "edgetune.stages.profiling.worker:Session"


@pytest.fixture
def child():
    started = Child(WORKER)
    yield started
    started.close()


def soon(seconds: float = 60.0) -> float:
    return time.monotonic() + seconds


def prepare(workload, batch_size=1, **changes):
    described = {**asdict(workload), "path": str(workload.path)}
    return {
        "command": "load",
        "workload": described,
        "task": "train",
        "batch_size": batch_size,
        "cpus": [],
        "threads": 1,
        "ort_providers": ["CPUExecutionProvider"],
        "torch_device": "cpu",
        "inputs": None,
        "dimensions": {},
        "seed": 0,
        **changes,
    }


def run(minibatches=3):
    return {"command": "run", "minibatches": minibatches}


def test_minibatches_are_timed_on_the_parents_clock(child, training):
    before_ns = time.monotonic_ns()
    child.ask(prepare(training()), deadline_s=soon())
    reply = child.ask(run(5), deadline_s=soon())
    times = [t for pair in zip(reply["start_ns"], reply["end_ns"], strict=True) for t in pair]
    assert len(times) == 10
    assert times == sorted(times)
    assert before_ns < times[0]
    assert times[-1] < time.monotonic_ns()


def test_printing_does_not_disturb_the_protocol(child, training):
    source = "import os\nprint('{}')\ndef make(b):\n    print('[1]')\n    return lambda: os.write(1, b'noise\\n')\n"
    child.ask(prepare(training(source)), deadline_s=soon())
    assert len(child.ask(run(), deadline_s=soon())["start_ns"]) == 3
    assert child.log_tail(1) == "noise"


def test_garbage_is_not_collected_while_timing_and_is_afterwards(child, training):
    source = (
        "import gc\nseen = []\ndef make(batch_size):\n    assert gc.isenabled()\n"
        "    return lambda: seen.append(gc.isenabled()) or (not any(seen) or 1/0)\n"
    )
    child.ask(prepare(training(source)), deadline_s=soon())
    child.ask(run(), deadline_s=soon())
    child.ask(prepare(training(source), 2), deadline_s=soon())


def test_hang_is_stopped_in_time_and_the_process_killed(child, training):
    source = "import time\ndef make(batch_size):\n    return lambda: time.sleep(3600)\n"
    child.ask(prepare(training(source)), deadline_s=soon())
    with pytest.raises(TimeoutError):
        child.ask(run(), deadline_s=soon(0.2))
    child.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


def test_killing_reaches_what_the_workload_started(child, training, tmp_path):
    source = (
        "import subprocess, sys, pathlib\n"
        "def make(batch_size):\n"
        "    other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'])\n"
        f"    pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(other.pid))\n"
        "    return lambda: None\n"
    )
    child.ask(prepare(training(source)), deadline_s=soon())
    child.close()
    assert has_ended(int((tmp_path / "pid").read_text()))


def test_killing_reaches_what_has_left_the_group(child, training, tmp_path):
    source = (
        "import subprocess, sys, pathlib\n"
        "def make(batch_size):\n"
        "    idle = [sys.executable, '-c', 'import time; time.sleep(3600)']\n"
        "    other = subprocess.Popen(idle, start_new_session=True)\n"
        f"    pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(other.pid))\n"
        "    return lambda: None\n"
    )
    child.ask(prepare(training(source)), deadline_s=soon())
    child.close()
    assert has_ended(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("garbage", [b"noise\n", b"{}\n", b"[1]\n", b"\xff\n"])
def test_garbage_in_the_pipes_is_the_workloads_fault(child, training, garbage):
    source = (
        "import os\ndef make(batch_size):\n    def step():\n        for fd in range(3, 1000):\n            try:\n"
        f"                os.write(fd, {garbage!r})\n            except OSError:\n                pass\n"
        "    return step\n"
    )
    child.ask(prepare(training(source)), deadline_s=soon())
    with pytest.raises(InputError, match="pipes"):
        child.ask(run(), deadline_s=soon())


def test_last_words_cannot_steer_the_terminal_and_are_short(child, training):
    source = (
        "import os\ndef make(batch_size):\n    os.write(1, b'\\x1b]0;title\\x07\\x1b[31m\\0red' * 200)\n"
        "    return lambda: os._exit(7)\n"
    )
    child.ask(prepare(training(source)), deadline_s=soon())
    with pytest.raises(InputError, match=r"exit code 7.*red") as caught:
        child.ask(run(), deadline_s=soon())
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 300


def has_ended(pid: int) -> bool:
    """Wait until a process is gone, or is a zombie that nobody has reaped yet."""
    for _ in range(2000):
        try:
            with open(f"/proc/{pid}/stat") as stat:
                if stat.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False


def test_crash_is_told_by_its_signal(child, training):
    source = "import os, signal\ndef make(batch_size):\n    return lambda: os.kill(os.getpid(), signal.SIGSEGV)\n"
    child.ask(prepare(training(source)), deadline_s=soon())
    with pytest.raises(InputError, match="SIGSEGV"):
        child.ask(run(), deadline_s=soon())
    assert not child.alive


def test_exit_code_is_reported_with_the_last_words(child, training):
    source = "import os\ndef make(batch_size):\n    print('out of luck')\n    return lambda: os._exit(7)\n"
    child.ask(prepare(training(source)), deadline_s=soon())
    with pytest.raises(InputError, match=r"exit code 7.*out of luck"):
        child.ask(run(), deadline_s=soon())


def test_sigkill_is_taken_for_want_of_memory(child, training):
    source = "import os, signal\ndef make(batch_size):\n    return lambda: os.kill(os.getpid(), signal.SIGKILL)\n"
    child.ask(prepare(training(source)), deadline_s=soon())
    with pytest.raises(InputError, match="memory"):
        child.ask(run(), deadline_s=soon())


def test_raising_step_is_one_line_with_the_place(child, training):
    source = "def make(batch_size):\n    def step():\n        raise ValueError('bad\\nluck')\n    return step\n"
    child.ask(prepare(training(source)), deadline_s=soon())
    with pytest.raises(InputError) as caught:
        child.ask(run(), deadline_s=soon())
    assert caught.value.message == "train.py:3: step() raised ValueError: bad luck"


def test_long_output_does_not_fill_the_disk(child, training):
    source = "def make(batch_size):\n    return lambda: print('x' * 400_000)\n"
    child.ask(prepare(training(source)), deadline_s=soon())
    for _ in range(12):
        child.ask(run(1), deadline_s=soon())
    assert os.fstat(child._log.fileno()).st_size < 3 << 20


def test_cores_are_bound_in_the_child_alone(child, training):
    cpu = min(os.sched_getaffinity(0))
    before = os.sched_getaffinity(0)
    source = (
        f"import os\ndef make(batch_size):\n    assert os.sched_getaffinity(0) == {{{cpu}}}\n    return lambda: None\n"
    )
    child.ask(prepare(training(source), cpus=[cpu]), deadline_s=soon())
    assert os.sched_getaffinity(0) == before


def test_environment_is_the_childs_alone(training):
    started = Child(WORKER, environment={"CUDA_VISIBLE_DEVICES": "GPU-aa"})
    source = (
        "import os\ndef make(batch_size):\n    assert os.environ['CUDA_VISIBLE_DEVICES'] == 'GPU-aa'\n"
        "    return lambda: None\n"
    )
    try:
        assert started.ask(prepare(training(source)), deadline_s=soon())["ok"]
    finally:
        started.close()
    assert os.environ.get("CUDA_VISIBLE_DEVICES") != "GPU-aa"


def test_child_dies_with_a_parent_that_is_killed(training, tmp_path):
    workload = training("import time\ndef make(batch_size):\n    return lambda: time.sleep(3600)\n")
    program = (
        "import sys, time\nfrom edgetune.processes.child import Child\n"
        "child = Child('edgetune.stages.profiling.worker:Session')\nprint(child.pid, flush=True)\n"
        f"child.ask({prepare(workload)!r}, deadline_s=time.monotonic() + 60)\nprint('ready', flush=True)\n"
        f"child.ask({run()!r}, deadline_s=time.monotonic() + 60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert parent.stdout.readline() == "ready\n"
        parent.send_signal(signal.SIGKILL)
    assert has_ended(pid)
