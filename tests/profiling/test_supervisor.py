"""The child process: what it answers, how it is stopped, and how its end is told.

Times of layers on a device: from the child process, from a twin's model, and from nothing else.
"""

import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.devices.device import LiveSource, Minibatches
from edgetune.devices.host import open_host
from edgetune.devices.twin.device import open_twin
from edgetune.devices.twin.physics import predict
from edgetune.devices.twin.work import work_of
from edgetune.errors import InputError
from edgetune.processes.child import Child
from edgetune.stages.profiling import supervisor as layers_module
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.supervisor import Supervisor, layer_times
from edgetune.stages.roofline.layers import join
from edgetune.workloads.costs import operator_table
from edgetune.workloads.resolve import resolve
from edgetune.workloads.workload import LayerSampling

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


CPU = LiveSource(("CPUExecutionProvider",), "cpu")


@pytest.fixture
def supervise():
    opened = []

    def start(workload, **options) -> Supervisor:
        opened.append(Supervisor(CPU, workload, ProfileOptions(**options)))
        return opened[-1]

    yield start
    for supervisor in opened:
        supervisor.close()


def pid(supervisor) -> int:
    return supervisor._child.pid


def test_child_stays_for_the_next_point(supervise, training, point):
    supervisor = supervise(training())
    supervisor.open(point(1)).run(2)
    first = pid(supervisor)
    supervisor.open(point(4)).run(2)
    assert pid(supervisor) == first


def test_workload_is_loaded_again_for_another_batch_size_only(supervise, training, point, tmp_path):
    log = tmp_path / "made"
    source = (
        f"def make(batch_size):\n    with open({str(log)!r}, 'a') as f:\n        f.write(f'{{batch_size}} ')\n"
        "    return lambda: None\n"
    )
    supervisor = supervise(training(source))
    for batch_size, mhz in ((1, 300.0), (1, 600.0), (4, 600.0)):
        supervisor.open(point(batch_size, gpu_mhz=mhz)).run(1)
    assert log.read_text() == "1 4 "


@pytest.mark.parametrize("fault", ["raise ValueError", "__import__('os')._exit(1)"])
def test_failed_child_is_replaced(supervise, training, point, fault):
    source = (
        f"def make(batch_size):\n    def step():\n        if batch_size == 2:\n            {fault}\n    return step\n"
    )
    supervisor = supervise(training(source))
    supervisor.open(point(1)).run(1)
    first = pid(supervisor)
    with pytest.raises(InputError):
        supervisor.open(point(2)).run(1)
    supervisor.open(point(4)).run(1)
    assert pid(supervisor) != first


def test_hanging_point_costs_its_time_limit_and_no_more(supervise, training, point):
    source = "import time\ndef make(batch_size):\n    return lambda: time.sleep(0 if batch_size == 1 else 3600)\n"
    supervisor = supervise(training(source), point_timeout_s=1.0)
    with pytest.raises(InputError, match=r"within 1 s \(--point-timeout\)"):
        supervisor.open(point(2)).run(1)
    supervisor.open(point(1)).run(1)


SQUEEZENET = resolve("zoo:squeezenet")


def at(batch_size=1, task="infer", **knobs):
    return Point("squeezenet", task, batch_size, Mode.of(knobs))


def test_layers_are_measured_in_the_child():
    times = layer_times(open_host(), SQUEEZENET, at(), how=LayerSampling(3, 1))
    assert "optimisation all" in times.source
    assert (times.simulated, times.minibatches) == (False, 3)
    assert times.undisturbed_s > 0
    joined = join(operator_table(SQUEEZENET, "infer", 1), times)
    assert {time.how for time in joined.unexplained} <= {"inserted"}
    assert joined.untimed == ()


def test_the_supervisor_loads_the_workload_again_after_a_profile():
    source = LiveSource(("CPUExecutionProvider",), "cpu")
    supervisor = Supervisor(source, SQUEEZENET, ProfileOptions())
    try:
        supervisor.open(at()).run(1)
        supervisor.layers(at(), LayerSampling(1, 0))
        assert len(supervisor.open(at()).run(2).start_ns) == 2
    finally:
        supervisor.close()


class _Recorder:
    """Stands for a supervisor; remembers how it was opened."""

    opened: list

    def __init__(self, source, workload, options):
        self.opened.append(dict(source.environment))

    def layers(self, point, how):
        return {"source": "x", "simulated": False, "minibatches": 1, "minibatch_s": 1.0, "times": (), "cautions": ()}

    def open(self, point):
        return self

    def run(self, minibatches):
        return Minibatches([0], [10**9])

    def close(self):
        pass


@pytest.mark.parametrize(("task", "waits"), [("infer", True), ("train", False)])
def test_cuda_kernels_of_onnx_runtime_are_waited_for_while_profiled_only(monkeypatch, task, waits):
    monkeypatch.setattr(_Recorder, "opened", [], raising=False)
    monkeypatch.setattr(layers_module, "Supervisor", _Recorder)
    source = LiveSource(("CUDAExecutionProvider",), "cuda:0", {"CUDA_VISIBLE_DEVICES": "0"})
    times = layer_times(replace(open_host(), source=source), SQUEEZENET, at(task=task))
    alone, profiled = _Recorder.opened
    assert ("CUDA_LAUNCH_BLOCKING" in profiled, "CUDA_LAUNCH_BLOCKING" in alone) == (waits, False)
    assert profiled["CUDA_VISIBLE_DEVICES"] == "0"
    assert times.undisturbed_s == 1.0
    assert bool(times.cautions) == waits


@pytest.mark.parametrize("task", ["infer", "train"])
def test_layers_of_a_twin_add_up_to_its_gpu_time(task):
    twin = open_twin("twin:orin-agx")
    ops = operator_table(SQUEEZENET, task, 4)
    times = layer_times(twin, SQUEEZENET, at(4, task))
    minibatch = twin.source.open(ops).run(1)
    assert times.simulated
    assert times.minibatch_s == pytest.approx(1e-9 * (minibatch.end_ns[0] - minibatch.start_ns[0]), abs=2e-9)
    layers = join(ops, times)
    assert {layer.how for layer in layers.layers} == {"simulated"}
    assert layers.untimed == ()
    assert layers.unexplained_share - layers.inserted_share - layers.between_share == pytest.approx(0, abs=1e-9)
    board = twin.source
    whole = predict(board.constants, work_of(ops), board.clocks, tf32_matmul=board.twin.tf32_matmul)
    assert sum(time.seconds for time in times.times) == pytest.approx(float(whole.gpu_s[0]))
