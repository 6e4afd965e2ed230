"""``edgetune schedule kernels run`` and ``bench`` with ``--launcher native``, on the fake driver of C++."""

import json

import pytest
from command_line import assert_two_lines
from gpu_tasks import SOURCE, TASKS

from edgetune.artifacts import io
from edgetune.artifacts.kernel_timeline import KernelTimeline
from edgetune.stages.elastic.cuda import gpu_session
from edgetune.stages.elastic.native import backend, build
from fakes.cuda_gpu import FakeCudaGpu
from fakes.cuda_native import native_cuda

RUN = ("schedule", "kernels", "run", "tasks.yaml", "--launcher", "native")
BENCH = ("schedule", "kernels", "bench", "A", "--launcher", "native")


@pytest.fixture
def tasks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "tasks.yaml").write_text(TASKS)
    (tmp_path / "scale.cu").write_text(SOURCE)
    return tmp_path


@pytest.fixture
def fake(monkeypatch):
    """Put the fake GPU of C++ into the machine."""
    real = gpu_session.open_gpu_session
    with native_cuda({}, FakeCudaGpu(sm_count=2, threads_per_sm=256)) as cuda:
        monkeypatch.setattr(
            gpu_session, "open_gpu_session", lambda index, **options: real(index, **{**options, "module": cuda})
        )
        monkeypatch.setattr(backend, "_driver_library", lambda: cuda.libcuda)
        yield cuda


@pytest.fixture
def no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    build.native_library.cache_clear()
    yield
    build.native_library.cache_clear()


def test_tasks_run_and_the_timeline_says_who_launched(edgetune, tasks, fake):
    ended = edgetune(*RUN, "--policy", "sequential,multistream,elastic", "-o", "k.parquet")
    assert ended.code == 0, ended.err
    timeline = io.read(KernelTimeline, "k.parquet")
    told = timeline.header.conditions
    assert (told["launcher"], told["simulated"]) == ("native", False)
    assert told["gpu"]["launch_s"] > 0, "measured with this launcher"
    assert told["policies"]["elastic"][0]["decisions"] > 0
    assert {row.policy for row in timeline.rows} == {"solo", "sequential", "multistream", "elastic"}
    assert {row.status for row in timeline.rows if row.event == "launch"} == {"ok"}
    assert {row.launch for row in timeline.rows if row.event == "launch" and row.policy == "solo"} >= {0, 1}


def test_without_a_compiler_there_are_two_lines(edgetune, tasks, fake, no_compiler):
    ended = edgetune(*RUN)
    assert_two_lines(ended, 4)
    assert "the native launcher needs g++, which is not installed" in ended.err
    assert "leave out --launcher native" in ended.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*RUN, "--blocks"], "--launcher native does not record blocks"),
        ([*RUN, "--policy", "barrier"], "policy barrier has no table of decisions"),
        ([*RUN[:-1], "nativ"], "unknown launcher: 'nativ'"),
        ([*BENCH], "--launcher native is for a real GPU"),
    ],
)
def test_bad_input(edgetune, tasks, fake, words, said):
    ended = edgetune(*words)
    assert_two_lines(ended, 2)
    assert said in ended.err


@pytest.mark.slow  # real kernels are compiled by the real compiler
def test_the_benchmark_runs(edgetune, tasks, fake):
    ended = edgetune(
        *BENCH,
        "--device",
        "nvidia:0",
        "--turns",
        "1",
        "--duration",
        "200ms",
        "--policy",
        "sequential,elastic",
        "--json",
    )
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert document["launcher"] == "native"
    assert [policy["policy"] for policy in document["workloads"][0]["policies"]] == ["sequential", "elastic"]


def test_calibration_measures_both_launchers(edgetune, tasks, fake):
    ended = edgetune("schedule", "kernels", "calibrate", "--json")
    assert ended.code == 0, ended.err
    native = json.loads(ended.out)["native"]
    assert native["reaction_s"] > 0
    assert native["why_not"] is None
    assert "decided by the native launcher" in edgetune("schedule", "kernels", "calibrate").out


def test_calibration_says_why_the_native_launcher_cannot_run(edgetune, tasks, fake, no_compiler):
    ended = edgetune("schedule", "kernels", "calibrate")
    assert ended.code == 0, ended.err
    assert "--launcher native: no: the native launcher needs g++, which is not installed" in ended.out
