"""The native launcher on the fake driver of C++: what it launches, its records, and what can go wrong."""

from __future__ import annotations

import ctypes
import subprocess
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from native_replay import replay
from native_scene import LAUNCH_S, kernels, native_machine, task

from benchmarks.elastic_histories import check_run
from edgetune.errors import DeviceError, InputError
from edgetune.serving.supervision import Supervision
from edgetune.stages.elastic.cuda import calibrate
from edgetune.stages.elastic.cuda.driver import Driver
from edgetune.stages.elastic.cuda.gpu_session import GpuSession
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.native import loop as loop_module
from edgetune.stages.elastic.native import structs
from edgetune.stages.elastic.native.backend import NativeBackend
from edgetune.stages.elastic.native.build import HERE, compile_native, load_library
from edgetune.stages.elastic.native.loop import NativeLoop, loop_on
from edgetune.stages.elastic.policies import make_policy
from fakes.cuda_driver import fake_image
from fakes.cuda_native import SOURCE, NativeKernel, compiled

REQUESTS = 12


TASKS = (
    task("critical", 1, arrivals="uniform:1/s"),
    task("a", arrivals="uniform:1/s"),
    task("b", arrivals="uniform:1/s"),
)


def planned(loop: NativeLoop) -> NativeLoop:
    """Let so many requests of each task come and no more, so that a run ends by itself, however slow the host is."""
    loop._offsets_ns = [np.arange(REQUESTS) * 500_000 for _ in loop._offsets_ns]
    return loop


def run(machine, policy: str = "elastic") -> NativeLoop:
    made = make_policy(policy, machine.tasks, machine.gpu)
    loop = planned(loop_on(made, machine.native(), machine.tasks, gpu=machine.gpu, duration_s=60.0))
    machine.cuda.log()  # of warming up
    loop.run()
    return loop


@pytest.mark.parametrize("policy", ["elastic", "multistream", "sequential"])
def test_records_are_what_the_gpu_ran(policy: str) -> None:
    with native_machine(*TASKS) as machine:
        loop = run(machine, policy)
        log = machine.cuda.log()
    check_run(loop)
    assert len(log) == len(loop.launches) >= 2 * 3 * REQUESTS
    symbols = {None: "", 1: "__grid", 2: "__block2"}
    told = Counter(
        (
            each.launch.what.kernel + symbols[None if each.launch.blocks is None else each.launch.per_thread],
            each.launch.first, each.launch.count, each.launch.physical_blocks,
        )
        for each in loop.launches
    )  # fmt: skip
    assert told == Counter((each.symbol, each.first, each.count, each.blocks) for each in log)
    assert [each.outcome for each in loop.requests] == ["ok"] * 3 * REQUESTS
    for record in loop.launches:
        assert record.launched_ns <= record.started_ns <= record.ended_ns
    assert loop.overhead.decisions >= len({each.number for each in loop.requests})


def test_requests_are_those_that_the_loop_in_python_takes() -> None:
    tasks = (task("critical", 1, arrivals="poisson:300/s"), task("a"), task("b", arrivals="closed:2"))
    with native_machine(*tasks) as machine:
        policy = make_policy("elastic", tasks, machine.gpu)
        native = NativeLoop(policy, machine.native(), tasks, gpu=machine.gpu, duration_s=0.05, seed=3)
        native.run()
        python = ElasticLoop(policy, machine.python(), tasks, gpu=machine.gpu, duration_s=0.05, seed=3)
        python.run()

    def arrivals(loop) -> list[int]:
        found = sorted(each.arrived_ns for each in loop.requests if each.task.critical)
        return [each - found[0] for each in found]

    assert arrivals(native) == arrivals(python)
    assert all(each.failure == "the run ended before it was answered" for each in native.requests if each.failure)
    for loop in (native, python):
        waits = {each.number for each in loop.requests if each.task.name == "b"}
        assert waits == {*range(len(waits))}, "each number once"


REPLAYED = (
    task("critical", 1, arrivals="poisson:300/s"),
    task("a"),
    task("b", arrivals="closed:2"),
    task("late", arrivals="poisson:200/s"),
)


def replayed(policy: str, duration_s: float = 0.1) -> int:
    with native_machine(*REPLAYED, made=kernels(wave=4)) as machine:
        small = replace(machine.gpu, sm_count=4, threads_per_sm=128)  # so that kernels are cut
        made = make_policy(policy, REPLAYED, small)
        loop = NativeLoop(made, machine.native(), REPLAYED, gpu=small, duration_s=duration_s, seed=5)
        loop.run()
    return replay(made, loop, REPLAYED, gpu=small, duration_s=duration_s, seed=5)


@pytest.mark.parametrize("policy", ["elastic", "multistream", "sequential"])
def test_replayed_by_the_loop_in_python_a_run_is_the_same(policy: str) -> None:
    assert replayed(policy, duration_s=0.3) > 5


MUTANTS = {
    "service is not counted": ("served_s += static_cast", "served_s += 0 * static_cast"),
    "an idle task keeps its claim": (
        "progress.arrived.front() > progress.idle_since_ns) join(at);",
        "false) join(at);",
    ),
    "a chain counts as one launch": ("number_ += table_.task[task].calls;", "number_ += 1;"),
}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_replay_finds_mutants(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong = MUTANTS[mutant]
    source = (HERE / "launcher.cpp").read_text()
    assert right in source

    def mutated(folder):
        (folder / "launcher.cpp").write_text(source.replace(right, wrong))
        return compile_native(folder / "mutant.so", [folder / "launcher.cpp", HERE / "decide.cpp"])

    library = load_library(mutated)
    monkeypatch.setattr(loop_module, "native_library", lambda: library)
    with pytest.raises((AssertionError, KeyError, ValueError)):
        [replayed("elastic", 0.4) for _ in range(40)]  # the first that shows it ends this


def test_critical_chains_are_graphs_on_the_stream_of_the_highest_priority() -> None:
    with native_machine(*TASKS) as machine:
        loop = run(machine)
        log = machine.cuda.log()
        lowest, highest = machine.context.priorities()
    chains = [each for each in log if each.priority == highest]
    assert {each.priority for each in log} == {lowest, highest}
    assert [each.symbol for each in chains[:4]] == ["double_it", "add_one"] * 2
    assert all(one.launched_ns == other.launched_ns for one, other in zip(chains[::2], chains[1::2], strict=True))
    of_one = [each for each in loop.launches if each.launch.task == "critical" and each.launch.request == 0]
    assert [each.launch.call for each in of_one] == [0, 1]
    assert of_one[0].ended_ns <= of_one[1].started_ns


def test_a_gpu_without_writes_of_values_sets_words() -> None:
    with native_machine(*TASKS) as machine:
        machine.cuda.missing.add("cuStreamWriteValue32")
        backend = machine.native()
        assert backend.api.write_value is None
        policy = make_policy("elastic", TASKS, machine.gpu)
        loop = planned(NativeLoop(policy, backend, TASKS, gpu=machine.gpu, duration_s=60.0))
        loop.run()
    check_run(loop)
    assert {each.outcome for each in loop.requests} == {"ok"}


def test_a_driver_that_is_too_old_is_told() -> None:
    class Old:
        cuCtxSetCurrent = None

    with native_machine(*TASKS) as machine, pytest.raises(DeviceError, match="too old") as caught:
        NativeBackend(machine.context, machine.programs, TASKS, library=Old())
    assert caught.value.hint == "use --launcher python"


def failing(**changed) -> dict[str, NativeKernel]:
    made = kernels()
    return {**made, "add_one__grid": replace(made["add_one__grid"], **changed)}


def test_after_a_failed_kernel_the_run_ends_and_says_why() -> None:
    tasks = (task("a"),)
    with native_machine(*tasks, made=failing(fails=700)) as machine:
        machine_gpu = replace(machine.gpu, sm_count=1, threads_per_sm=128)  # so that kernels are cut
        backend = machine.native()
        loop = NativeLoop(make_policy("elastic", tasks, machine_gpu), backend, tasks, gpu=machine_gpu, duration_s=10)
        loop.run()
        machine.context.hung = True  # nothing can be freed
    assert "a kernel read or wrote memory that is not its own" in backend.lost
    assert loop.launches[-1].failure == backend.lost
    assert {each.outcome for each in loop.requests} == {"failed"}
    assert loop.requests[0].failure == backend.lost


def test_a_kernel_without_an_end_is_given_up() -> None:
    tasks = (task("a"),)
    with native_machine(*tasks, made=failing(block_ns=-1)) as machine:
        machine.hang_s = 0.1
        machine_gpu = replace(machine.gpu, sm_count=1, threads_per_sm=128)
        backend = machine.native()
        loop = NativeLoop(make_policy("elastic", tasks, machine_gpu), backend, tasks, gpu=machine_gpu, duration_s=10)
        loop.run()
        assert machine.context.hung
    assert backend.lost == "nothing has ended for 0.1 s"


def test_a_run_that_is_stopped_waits_for_what_is_in_flight() -> None:
    tasks = (task("critical", 1, arrivals="poisson:300/s"), task("a"))
    polls = iter([False, False])
    with native_machine(*tasks) as machine:
        loop = NativeLoop(
            make_policy("elastic", tasks, machine.gpu), machine.native(), tasks, gpu=machine.gpu, duration_s=60.0,
            supervision=Supervision(lambda: next(polls, True)),
        )  # fmt: skip
        loop.run()
    check_run(loop)
    assert all(each.failure is None for each in loop.launches)


def test_a_policy_without_a_table_is_refused() -> None:
    with native_machine(*TASKS) as machine, pytest.raises(InputError, match="barrier has no table"):
        run(machine, "barrier")


def test_a_session_opens_the_native_backend() -> None:
    with native_machine(*TASKS) as machine:
        session = GpuSession(machine.context, launcher="native", library=machine.cuda.libcuda)
        session._programs = dict(machine.programs)
        with session.open_backend(TASKS) as backend:
            assert isinstance(backend, NativeBackend)
            loop = loop_on(make_policy("elastic", TASKS, machine.gpu), backend, TASKS, gpu=machine.gpu, duration_s=0.01)
            loop.run()
        assert session.lost is None
        assert isinstance(machine.context.driver, Driver)


def test_everything_is_freed() -> None:
    with native_machine(*TASKS) as machine:
        cuda = machine.cuda
        run(machine)
    assert not [each for each in cuda.leaked() if each not in ("memory", "module")]


def test_structures_are_those_of_the_headers(tmp_path) -> None:
    names = {
        "Table": "Table", "CallRow": "Call", "State": "State", "DecisionRow": "Decision", "Api": "Api",
        "FormRow": "Form", "ReadyRow": "Ready", "LineRow": "Line", "PlanRow": "Plan", "RecordRow": "Record",
        "SummaryRow": "Summary",
    }  # fmt: skip
    printed = " ".join(f'printf("%zu ", sizeof(edgetune::{name}));' for name in names.values())
    (tmp_path / "sizes.cpp").write_text(f'#include "launcher.hpp"\n#include <cstdio>\nint main() {{ {printed} }}\n')
    program = compile_native(tmp_path / "sizes", [tmp_path / "sizes.cpp"], [])
    found = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    assert [ctypes.sizeof(getattr(structs, name)) for name in names] == [*map(int, found)]


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_sanitizers_find_nothing(sanitizer: str) -> None:
    sources = [SOURCE, SOURCE.parents[1] / "elastic" / "native_check.cpp", HERE / "launcher.cpp", HERE / "decide.cpp"]
    program = compiled(sources, "check", f"-fsanitize={sanitizer}", f"-I{HERE}", "-ffp-contract=off")
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert LAUNCH_S


def test_the_time_of_a_launch_is_measured_with_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "compiled_for", lambda _: fake_image(calibrate.EMPTY_KERNEL))
    with native_machine(made={calibrate.EMPTY_KERNEL: NativeKernel(block_ns=30_000)}) as machine:
        took_s = calibrate.native_launch_s(machine.context, machine.cuda.libcuda)
    assert took_s > 30e-6, "the kernel is in it"
