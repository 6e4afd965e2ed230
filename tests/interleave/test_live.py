"""The live stage: real networks and real training in child processes, and everything that can go wrong with them."""

import contextlib
import itertools
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.devices.capabilities import Absent, MonotonicClock
from edgetune.devices.device import Device, LiveSource
from edgetune.errors import InputError
from edgetune.serving.arrivals import ArrivalSpec
from edgetune.serving.requests import LineArrivals
from edgetune.stages.interleave.admission import NEVER_NS
from edgetune.stages.interleave.backend import Inference, LiveTenant, Minibatch, SavedCheckpoint, Training
from edgetune.stages.interleave.live import LiveMinibatchBackend
from edgetune.stages.interleave.loop import EngineTurn, InterleaveLoop
from edgetune.stages.interleave.policies import POLICIES
from edgetune.workloads.resolve import resolve
from edgetune.workloads.workload import Workload

ROWS = 4
HOST = Device(
    "host",
    "this machine",
    False,
    LiveSource(("CPUExecutionProvider",), "cpu"),
    MonotonicClock(),
    *[Absent("not looked for")] * 4,
)
STEPS = "import os, time, math\ncount = 0\ndef make(batch_size):\n    def step():\n        global count\n"
STEPS += "        count += 1\n        {}\n        return 1 / count\n    return step\n"
LEARNS = "def save(path):\n    open(path, 'w').write(str(count))\n"
LEARNS += "def load(path):\n    global count\n    count = int(open(path).read())\n"


def network(path: Path, batch: str | int = "batch") -> Workload:
    """A table of four rows, looked up by an index per sample, then weights: an index too high cannot be run."""
    weights = {
        "table": np.arange(ROWS * 3, dtype=np.float32).reshape(ROWS, 3) / 10,
        "weight": np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2),
    }
    nodes = [
        helper.make_node("Gather", ["table", "index"], ["row"]),
        helper.make_node("MatMul", ["row", "weight"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("index", TensorProto.INT64, [batch])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [batch, 2])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return resolve(str(path))


@pytest.fixture
def infers(tmp_path):
    """Return a function that makes an inference tenant; its handler is given as text."""

    def make(batch_size=2, *, handler=None, name="cam", batch="batch", **more) -> LiveTenant:
        if handler is not None:
            (tmp_path / f"handle_{name}.py").write_text(handler)
            more["handler"] = tmp_path / f"handle_{name}.py"
        workload = network(tmp_path / f"{name}.onnx", batch)
        return LiveTenant(Inference(name, batch_size, 0.2, 100.0, 0.001), workload, **more)

    return make


@pytest.fixture
def trains(tmp_path):
    """Return a function that makes a training tenant from what each step does."""

    def make(step="pass", *, more="", name="job", **options) -> LiveTenant:
        path = tmp_path / f"{name}.py"
        path.write_text(STEPS.format(step) + more)
        return LiveTenant(Training(name, 4, 0.001), resolve(str(path)), **options)

    return make


@pytest.fixture
def staged():
    """Return a function that makes a stage which is closed in the end."""
    stages = []

    def make(*tenants, engine="managed", **options) -> LiveMinibatchBackend:
        stages.append(LiveMinibatchBackend(engine, options.pop("device", HOST), tenants, **{"warmup": 0, **options}))
        return stages[-1]

    yield make
    for stage in stages:
        stage.close()


def all_done(stage, *minibatches):
    """Start minibatches and return what comes of them, in the order in which they end."""
    for minibatch in minibatches:
        stage.start(minibatch)
    done = []
    while len(done) < len(minibatches):
        done += stage.wait(stage.now_ns() + 30_000_000_000)
    return done


def infer(number, *requests, tenant="cam"):
    return Minibatch(tenant, "infer", number, requests)


def train(number, tenant="job"):
    return Minibatch(tenant, "train", number)


def behind(minibatch):
    """The minibatch, to begin when what runs has ended."""
    return replace(minibatch, begin_by_ns=NEVER_NS)


def run(stage, *tenants, seconds=1.0, rate=40.0, policy="managed"):
    """A real run; the tenants' times are those measured when they were loaded."""
    begin_ns = stage.now_ns()
    end_ns = begin_ns + round(seconds * 1e9)
    nouns = [
        replace(live.tenant, minibatch_s=max(stage.warm_up_s[live.tenant.name][-1:], default=0.001)) for live in tenants
    ]
    sources = {t.name: ArrivalSpec("uniform", (rate,)).source(begin_ns, end_ns) for t in nouns if t.name == "cam"}
    loop = InterleaveLoop(EngineTurn("managed", end_ns), stage, POLICIES.find(policy)(), nouns, sources)
    loop.run()
    return loop


def of(loop, event):
    return [row for row in loop.rows if row.event == event]


def children(stage):
    return {child.pid for child in stage._children}


def exists(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_requests_are_answered_while_a_network_learns_and_its_weights_come_back(tmp_path, infers, staged):
    from edgetune.workloads.torch_module import trainer, with_trained

    checkpoint = tmp_path / "trained.onnx"
    cam = infers()
    job = LiveTenant(Training("job", 4, 0.01), network(tmp_path / "net.onnx"), checkpoint=checkpoint)
    stage = staged(cam, job, warmup=2)
    loop = run(stage, cam, job)
    saved = stage.save()
    requests, steps = of(loop, "request"), of(loop, "train")
    assert [row.status for row in requests] == ["ok"] * 39
    assert all(row.arrived_s <= row.started_s <= row.finished_s for row in requests)
    assert [row.minibatch for row in steps] == list(range(len(steps)))
    assert steps[-1].loss < steps[0].loss

    expected = trainer(onnx.load(tmp_path / "net.onnx"), 4)
    assert [expected.step() for _ in steps] == pytest.approx([row.loss for row in steps], rel=1e-5)
    assert saved == [SavedCheckpoint("job", checkpoint, len(steps))]
    trained = with_trained(onnx.load(tmp_path / "net.onnx"), expected.module)
    for mine, theirs in zip(onnx.load(checkpoint).graph.initializer, trained.graph.initializer, strict=True):
        np.testing.assert_allclose(numpy_helper.to_array(mine), numpy_helper.to_array(theirs), rtol=1e-5)
    assert onnx.load(checkpoint).graph.input == onnx.load(tmp_path / "net.onnx").graph.input


def test_a_network_without_a_deadline_infers_the_samples_that_are_always_there(tmp_path, infers, staged):
    behind = infers(4, name="behind")
    behind = replace(behind, tenant=Training("behind", 4, 0.001, task="infer"))
    cam = infers()
    loop = run(staged(cam, behind), cam, behind, seconds=0.3)
    steps = of(loop, "train")
    assert len(steps) > 5
    assert {(row.tenant, row.samples, row.status, row.loss) for row in steps} == {("behind", 4, "ok", None)}
    assert {row.status for row in of(loop, "request")} == {"ok"}


@pytest.mark.slow
def test_training_at_another_batch_size_goes_on_where_it_was(tmp_path, staged):
    from edgetune.workloads.torch_module import trainer

    job = LiveTenant(Training("job", 4, 0.01), network(tmp_path / "net.onnx"), checkpoint=tmp_path / "out.onnx")
    stage = staged(job)
    all_done(stage, train(0), train(1))
    stage.prepare("job", 2)
    (done,) = all_done(stage, train(2))

    model = onnx.load(tmp_path / "net.onnx")
    first, second = trainer(model, 4), trainer(model, 2)
    first.step()
    first.step()
    second.continue_from(first)
    assert done.loss == pytest.approx(second.step(), rel=1e-5)
    assert stage.save()[0].steps == 3
    resumed = replace(job, tenant=Training("job", 2, 0.01), resume=tmp_path / "out.onnx")
    (later,) = all_done(staged(resumed), train(0))
    assert later.loss == pytest.approx(second.step(), rel=1e-5), "from the weights of the earlier run"


def test_a_tenant_that_hangs_is_killed_alone_and_what_is_queued_behind_it_runs(infers, trains, staged):
    stage = staged(infers(), trains("count < 2 or time.sleep(3600)"), hang_s=1.5)
    before = children(stage)
    all_done(stage, train(0))
    answered, hung = sorted(all_done(stage, train(1), behind(infer(0, 0, 1))), key=lambda entry: entry.lost)
    assert answered.failure is None
    assert answered.start_ns >= hung.start_ns
    assert hung.lost
    assert "did not finish within" in hung.failure
    assert hung.end_ns - hung.start_ns >= 1_500_000_000
    (later,) = all_done(stage, infer(1, 2))
    assert later.failure is None
    for closing in stage._closing:
        closing.join()
    assert sum(exists(pid) for pid in before) == 1
    (again,) = all_done(stage, train(2))
    assert again.lost


def test_training_that_diverges_stops_and_its_last_good_checkpoint_stays(tmp_path, trains, staged):
    job = trains("if count == 3: return math.nan", more=LEARNS, checkpoint=tmp_path / "state")
    stage = staged(job, save_every_s=0.0)
    good = all_done(stage, train(0), train(1))
    (bad,) = all_done(stage, train(2))
    assert [done.loss for done in good] == [1.0, 0.5]
    assert math.isnan(bad.loss)
    assert bad.lost
    assert bad.failure == "training diverged: the loss is nan at step 3"
    assert stage.save() == [SavedCheckpoint("job", tmp_path / "state", failure=bad.failure)]
    assert (tmp_path / "state").read_text() == "2"
    assert not list(tmp_path.glob("*partial*"))


def test_the_last_checkpoint_of_a_crashed_training_stays(tmp_path, trains, staged):
    (tmp_path / "old").write_text("of an earlier run")
    crashing = trains("count < 3 or os.abort()", more=LEARNS, checkpoint=tmp_path / "state")
    late = trains("os.abort()", more=LEARNS, checkpoint=tmp_path / "old", name="late")
    stage = staged(crashing, late, save_every_s=0.0)
    all_done(stage, train(0), train(1), train(2), train(0, "late"))
    saved, unsaved = stage.save()
    assert (saved.path, unsaved.path) == (tmp_path / "state", None)
    assert (tmp_path / "state").read_text() == "2"
    assert "SIGABRT" in saved.failure
    assert stage.log_tail("job") != ""


HANDLER = """
import json
def inputs(request, line):
    return {{"index": {index}}}
def outputs(request, line, arrays):
    with open({path!r}, "a") as file:
        file.write(json.dumps([request, line, {{name: array.tolist() for name, array in arrays.items()}}]) + "\\n")
"""


def handled(path):
    return {request: (line, arrays) for request, line, arrays in map(json.loads, Path(path).read_text().splitlines())}


def scores(index):
    weight = np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2)
    return ((np.arange(ROWS * 3, dtype=np.float32).reshape(ROWS, 3) / 10)[index] @ weight).tolist()


def test_requests_whose_inputs_raise_or_spoil_their_batch_fail_alone_and_leave_no_trace(tmp_path, infers, staged):
    out = str(tmp_path / "out")
    stage = staged(infers(3, handler=HANDLER.format(index="[2, 1 / (request != 1), 99, 1][request]", path=out)))
    raised, spoilt, after = all_done(stage, infer(0, 0, 1), infer(1, 0, 2), infer(2, 3))
    assert not any(done.lost or done.failure for done in (raised, spoilt, after))
    ((request, reason),) = raised.failed
    assert request == 1
    assert "inputs() raised ZeroDivisionError" in reason
    assert [request for request, _ in spoilt.failed] == [2]
    assert after.failed == ()
    answers = {0: scores(2), 3: scores(1)}
    assert handled(out) == {number: (None, {"scores": pytest.approx(of)}) for number, of in answers.items()}


def test_lines_from_outside_wake_the_stage_and_reach_the_handler(tmp_path, infers, staged):
    out = str(tmp_path / "out")
    read, write = os.pipe()
    source = LineArrivals(read)
    stage = staged(infers(2, handler=HANDLER.format(index="int(line)", path=out)))
    stage.listen({"cam": source})
    os.write(write, b"3\n1\n")
    assert stage.wait(stage.now_ns() + 30_000_000_000) == []
    assert len(source.take(stage.now_ns())) == 2
    all_done(stage, infer(0, 0, 1))
    assert handled(out) == {0: ("3", {"scores": scores(3)}), 1: ("1", {"scores": scores(1)})}
    os.close(write)
    assert stage.wait(stage.now_ns() + 30_000_000_000) == []
    source.take(stage.now_ns())
    begun_ns = stage.now_ns()
    stage.wait(begun_ns + 50_000_000)  # an end of file, once read, wakes nobody any more
    assert stage.now_ns() - begun_ns >= 50_000_000
    os.close(read)


def test_a_batch_size_that_fails_leaves_the_old_one_ready(tmp_path, infers, trains, staged):
    out = str(tmp_path / "out")
    np.savez(tmp_path / "in.npz", index=np.array([3, 1, 2]))
    job = trains(more="made = make\ndef make(batch_size):\n    return made(4 // (8 - batch_size))\n")
    stage = staged(infers(2, inputs=str(tmp_path / "in.npz"), handler=HANDLER.format(index="1", path=out)), job)
    stage.prepare("cam", 3)
    (done,) = all_done(stage, infer(0, 0, 1, 2))
    assert done.failure is None
    assert len(handled(out)) == 3
    with pytest.raises(InputError, match=r"job: .* cannot go on at another batch size: it defines no save\(path\)"):
        stage.prepare("job", 8)
    (done,) = all_done(stage, train(0))
    assert done.loss == 1.0


def test_a_training_file_goes_on_at_another_batch_size_and_from_a_checkpoint(tmp_path, trains, staged):
    (tmp_path / "state").write_text("9")
    job = trains(more=LEARNS, resume=tmp_path / "state", checkpoint=tmp_path / "new" / "state.txt")
    with pytest.raises(InputError, match="cannot be written"):
        staged(job)
    (tmp_path / "new").mkdir()
    stage = staged(job)
    (first,) = all_done(stage, train(0))
    stage.prepare("job", 2)
    (second,) = all_done(stage, train(1))
    assert (first.loss, second.loss) == (1 / 10, 1 / 11)
    assert stage.save() == [SavedCheckpoint("job", tmp_path / "new" / "state.txt", 2)]
    assert (tmp_path / "new" / "state.txt").read_text() == "11"
    assert os.listdir(tmp_path / "new") == ["state.txt"]


def test_a_queued_minibatch_begins_when_the_other_process_has_ended(infers, trains, staged):
    stage = staged(infers(), trains("time.sleep(0.01)"))
    for number in range(20):
        chain = [train(2 * number), behind(infer(number, number)), behind(train(2 * number + 1))]
        stage.start(chain[0])
        stage.start(chain[1])
        done = list(stage.wait(None))
        stage.start(chain[2])
        while len(done) < 3:
            done += stage.wait(None)
        done.sort(key=lambda entry: entry.start_ns)  # of two that end at once either may be told first
        assert [entry.minibatch for entry in done] == chain
        assert all(entry.failure is None for entry in done)
        for before, after in itertools.pairwise(done):
            assert before.end_ns <= after.start_ns


def test_waiting_ends_at_the_time_and_with_a_signal(trains, staged):
    stage = staged(trains())
    until_ns = stage.now_ns() + 20_000_000
    assert stage.wait(until_ns) == []
    assert stage.now_ns() >= until_ns
    assert stage.wait(None) == []

    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    sender = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        sender.start()
        until_ns = stage.now_ns() + 60_000_000_000
        assert stage.wait(until_ns) == []
        assert stage.now_ns() < until_ns
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)


def test_in_streams_a_thread_that_hangs_leaves_the_others_theirs(infers, trains, staged):
    stage = staged(infers(), trains("count < 2 or time.sleep(3600)"), engine="streams", hang_s=1.5)
    assert len(children(stage)) == 1
    done = all_done(stage, train(0), infer(0, 0))
    assert [entry.failure for entry in done] == [None, None]
    (hung,) = all_done(stage, train(1))
    assert hung.lost
    (done,) = all_done(stage, infer(1, 1, 2))
    assert done.failure is None
    stage.prepare("cam", 4)
    (done,) = all_done(stage, infer(2, 3, 4, 5, 6))
    assert done.failure is None


def test_nothing_is_left_behind_by_a_parent_that_is_killed(trains):
    job = trains("time.sleep(3600)")
    program = (
        "import time\n"
        "from edgetune.devices.host import open_host\n"
        "from edgetune.stages.interleave.live import LiveMinibatchBackend\n"
        "from edgetune.stages.interleave.backend import LiveTenant, Minibatch, Training\n"
        "from edgetune.workloads.resolve import resolve\n"
        f"job = LiveTenant(Training('job', 4, 0.001), resolve({str(job.workload.path)!r}))\n"
        "backend = LiveMinibatchBackend('managed', open_host(), [job], warmup=0)\n"
        "backend.start(Minibatch('job', 'train', 0))\n"
        "print(*[child.pid for child in backend._children], flush=True)\n"
        "backend.wait(None)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
        parent.wait(120)
    limit_s = time.monotonic() + 30
    while exists(pid) and _state(pid) != "Z" and time.monotonic() < limit_s:
        time.sleep(0.01)
    assert not exists(pid) or _state(pid) == "Z"


def _state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


class FakeCuda:
    """Streams that write down what is run on them."""

    def __init__(self):
        self.log = []
        self._current = None

    def is_available(self):
        return True

    def Stream(self, device, priority):
        return SimpleNamespace(
            priority=priority, cuda_stream=77, synchronize=lambda: self.log.append(("waited for", priority))
        )

    @contextlib.contextmanager
    def stream(self, stream):
        self._current = stream
        yield
        self._current = None

    def synchronize(self, device):
        self.log.append(("waited for", device))

    def step(self):
        self.log.append(("ran on", self._current and self._current.priority))


@pytest.mark.parametrize(
    ("shared", "urgent", "where", "options"),
    [
        (True, False, 0, {"user_compute_stream": "77"}),
        (True, True, -1, {"user_compute_stream": "77"}),
        (False, False, None, None),
    ],
)
def test_on_a_gpu_answers_have_a_stream_that_goes_first(monkeypatch, shared, urgent, where, options):
    from edgetune.stages.interleave.sessions import TenantStream

    cuda = FakeCuda()
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    stream = TenantStream({"torch_device": "cuda:0", "shared": shared, "urgent": urgent, "task": "train"})
    stream.finishing(cuda.step)()
    assert cuda.log == [("ran on", where), ("waited for", "cuda:0" if where is None else where)]
    assert stream.provider_options(("CUDAExecutionProvider", "CPUExecutionProvider")) == options
    assert stream.provider_options(("CPUExecutionProvider",)) is None
