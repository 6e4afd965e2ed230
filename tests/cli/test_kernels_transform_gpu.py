"""``edgetune schedule kernels transform --check --device``, on a fake of CUDA's driver and without any."""

import json
import sys
from functools import partial

import pytest
from command_line import assert_two_lines

from edgetune.stages.elastic import cpu_equivalence
from edgetune.stages.elastic.cuda import context, driver
from edgetune.stages.elastic.ptx.decode import UnknownInstructionError
from edgetune.testing.fake_clock import FakeClock
from fakes.cuda_driver import FakeCuda
from fakes.cuda_gpu import FakeCudaGpu, FakeCudaKernel
from fakes.cuda_state import ticking

SCALE = """// launch scale grid=3 block=64 x=float32[256] n=int32:150
__global__ void scale(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2.0f;
}
"""
SHIFT = """// launch shift grid=2 block=32 y=int32[64]
__global__ void shift(int *y) { y[blockIdx.x * blockDim.x + threadIdx.x] += 1; }
"""
RACY = """// launch last grid=3 block=32 x=int32[1]:zero
__global__ void last(int *x) { x[0] = blockIdx.x * 32 + threadIdx.x; }
"""


def touch(memory, launch):
    memory.view(int.from_bytes(launch.arguments[0], "little"), "uint8", 1)[0] = 7


TOUCHING = {
    symbol: FakeCudaKernel(sizes if symbol == name else (*sizes, 32), 1000, touch)
    for name, sizes in (("scale", (8, 4)), ("shift", (8,)), ("last", (8,)))
    for symbol in (name, f"{name}__grid", *(f"{name}__block{each}" for each in (2, 4, 8)))
}
FILES = ("schedule", "kernels", "transform")
CHECK = ("--check", "--device", "nvidia:0", "--quiet")


@pytest.fixture
def source(tmp_path):
    def write(text: str) -> str:
        file = tmp_path / "k.cu"
        file.write_text(text)
        return str(file)

    return write


@pytest.fixture
def fake(monkeypatch):
    """Put a fake GPU into the machine, on which kernels write one byte unless it is said what."""
    load, opened = driver.load_driver, context.open_context

    def put(kernels: dict[str, FakeCudaKernel] | None = None, *, gpus: int = 1, **more) -> FakeCuda:
        clock = FakeClock()
        kernels = TOUCHING | (kernels or {})
        cuda = FakeCuda([FakeCudaGpu()] * gpus, clock, **{"kernels": kernels, "version": 13000, **more})
        monkeypatch.setattr(driver, "load_driver", lambda: load(cuda))
        on_its_clock = partial(opened, now_ns=ticking(clock, 1000), sleep_s=clock.sleep_s)
        monkeypatch.setattr(context, "open_context", on_its_clock)
        return cuda

    return put


def told(ended) -> dict[str, dict]:
    return {each["name"]: each for each in json.loads(ended.out)["kernels"]}


def test_kernels_are_checked_on_the_cpu_and_on_the_gpu_and_both_are_distinguished(edgetune, source, fake):
    cuda = fake()
    file = source(SCALE + SHIFT)
    ended = edgetune(*FILES, file, *CHECK)
    assert ended.code == 0, ended.err
    lines = [line.split() for line in ended.out.splitlines()]
    assert lines[0][:2] == ["where", "kernel"]
    assert [line[:2] for line in lines if line[-1] == "given"] == [
        ["CPU", "scale"], ["nvidia:0", "scale"], ["CPU", "shift"], ["nvidia:0", "shift"],
    ]  # fmt: skip
    assert {each.symbol for each in cuda.launches} >= {"scale", "scale__grid", "shift__grid"}
    assert cuda.leaked() == []
    ended = edgetune(*FILES, file, *CHECK, "--json")
    check, on_gpu = (told(ended)["scale"][name] for name in ("check", "check_on_gpu"))
    assert (check["answer"], on_gpu["answer"]) == ("equal", "equal")
    assert (on_gpu["device"], on_gpu["gpu"]) == ("nvidia:0", "Fake CUDA GPU (not hardware)")
    assert check["sequences"] != on_gpu["sequences"]


def test_a_race_that_the_gpu_hides_is_shown_by_the_cpu(edgetune, source, fake):
    fake()
    ended = edgetune(*FILES, source(RACY), *CHECK, "--json")
    assert ended.code == 5
    assert "last is racy by itself on the CPU: " in ended.err
    assert told(ended)["last"]["check"]["answer"] == "racy"
    assert told(ended)["last"]["check_on_gpu"]["answer"] == "equal"


def test_a_form_that_is_wrong_on_the_gpu_alone(edgetune, source, fake):
    def spoil(memory, launch):
        memory.view(int.from_bytes(launch.arguments[0], "little"), "float32", 256)[9] = 7

    fake({"scale__block2": FakeCudaKernel((8, 4, 32), 1000, spoil)})
    ended = edgetune(*FILES, source(SCALE), *CHECK, "--json")
    assert ended.code == 5
    assert told(ended)["scale"]["check"]["answer"] == "equal"
    assert told(ended)["scale"]["check_on_gpu"]["answer"] == "different"


@pytest.mark.parametrize(
    "kernel", [FakeCudaKernel((8, 4), 1000, fails=700), FakeCudaKernel((8, 4), None)], ids=["fails", "hangs"]
)
def test_kernels_after_a_failed_one_are_not_checked(edgetune, source, fake, kernel):
    fake({"scale": kernel})
    ended = edgetune(*FILES, source(SCALE + SHIFT), *CHECK, "--json")
    assert ended.code == 5
    shift = told(ended)["shift"]["check_on_gpu"]
    assert (shift["answer"], shift["launch"]) == ("not tried", "none")
    assert shift["why"].startswith("scale failed before it")


def test_a_kernel_that_does_not_end_on_the_cpu_is_not_run_on_the_gpu(edgetune, source, fake):
    cuda = fake()
    text = SCALE.replace("x[i] *= 2.0f;", "x[i * 100000] *= 2.0f;")
    ended = edgetune(*FILES, source(text + SHIFT), *CHECK, "--json")
    assert ended.code == 5
    assert "scale does not run to its end on the CPU: " in ended.err
    assert told(ended)["scale"]["check"]["answer"] == "fails"
    assert "not run to its end on the CPU" in told(ended)["scale"]["check_on_gpu"]["why"]
    assert told(ended)["shift"]["check_on_gpu"]["answer"] == "equal"
    assert not any("scale" in each.symbol for each in cuda.launches)


def test_a_kernel_that_the_cpu_does_not_run_is_checked_on_the_gpu(edgetune, source, fake, monkeypatch):
    def lacking(*arguments, **options):
        raise UnknownInstructionError("the interpreter does not know the instruction", "check on a GPU")

    fake()
    monkeypatch.setattr(cpu_equivalence, "check", lacking)
    ended = edgetune(*FILES, source(SCALE), *CHECK, "--json")
    assert ended.code == 0, ended.err
    assert told(ended)["scale"]["check"]["answer"] == "not tried"
    assert told(ended)["scale"]["check_on_gpu"]["answer"] == "equal"


def test_no_cuda_is_reported_in_two_lines(edgetune, source, fake, monkeypatch):
    file = source(SCALE)
    fake(fails_with=None)
    ended = edgetune(*FILES, file, *CHECK)
    assert_two_lines(ended, 4)
    assert "without --device the check runs on the CPU" in ended.err
    fake(gpus=0)
    ended = edgetune(*FILES, file, *CHECK)
    assert "without --device the check runs on the CPU" in ended.err
    fake()
    ended = edgetune(*FILES, file, "--check", "-d", "nvidia:3", "--quiet")
    assert_two_lines(ended, 4)
    assert "there is no GPU 3" in ended.err
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    ended = edgetune(*FILES, file, *CHECK)
    assert_two_lines(ended, 4)


def test_a_device_is_an_nvidia_gpu_to_check_on(edgetune, source, tmp_path):
    ended = edgetune(*FILES, source(SCALE), "--check", "--device", "host", "-o", str(tmp_path / "out.ptx"))
    assert_two_lines(ended, 2)
    assert "'host'" in ended.err
    assert not (tmp_path / "out.ptx").exists()
    ended = edgetune(*FILES, source(SCALE), "--device", "nvidia:0")
    assert_two_lines(ended, 2)
