"""Peak kernels on a CUDA device, which is a fake: from ``open_step`` down to PyTorch's operators."""

from itertools import pairwise

import pytest

from edgetune.errors import DeviceError, InputError
from edgetune.workloads.kernel_steps import _torch_run, open_kernel
from edgetune.workloads.kernels import MATMUL, PRECISIONS, BenchmarkKernel, parse_kernel
from edgetune.workloads.resolve import resolve
from edgetune.workloads.steps import open_step
from edgetune.workloads.workload import RunOptions

torch = pytest.importorskip("torch")

from fakes.torch_cuda import FakeCuda  # noqa: E402 - not without torch

OPERATORS = {"matmul": "mm", "thin": "mm", "relu": "clamp_min", "transpose": "copy_", "copy": "copy_"}
NARROW = {"int8": "_int_mm", "fp8": "_scaled_mm"}


def shape(name, precision, rows=4096):
    return (
        BenchmarkKernel.square(name, rows, precision)
        if name != "thin"
        else BenchmarkKernel("matmul", rows, 2 * rows, 16, precision)
    )


def opened(kernel):
    return open_step(resolve(kernel.reference), "infer", 1, RunOptions(torch_device="cuda:0", threads=1))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", OPERATORS)
def test_every_kernel_is_queued_as_its_definition_says(name, precision):
    kernel = shape(name, precision)
    with FakeCuda(computes=False) as cuda:
        step = opened(kernel)
        before = len(cuda.launches)
        step()
    done = cuda.launches[before:]
    assert len(done) == kernel.repeats
    operator = NARROW.get(precision, "mm") if kernel.name == MATMUL else OPERATORS[name]
    assert {launch.name for launch in done} == {operator}
    assert {(launch.flops, launch.bytes_moved) for launch in done} == {(kernel.flops, kernel.bytes_moved)}
    if kernel.name == MATMUL:
        assert {launch.precision for launch in done} == {precision}
    assert all(first.end_ns <= second.start_ns for first, second in pairwise(cuda.launches))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_nothing_is_allocated_while_it_runs_and_everything_is_given_back(precision):
    kernel = shape("matmul", precision, 1024)
    with FakeCuda(computes=False) as cuda:
        step = opened(kernel)
        held = cuda.held_bytes
        assert kernel.bytes_moved <= held <= kernel.bytes_moved + 16  # the scales of FP8
        step()
        assert cuda.held_bytes == held
        del step
        assert cuda.held_bytes == 0


def test_a_step_ends_when_the_device_has_finished():
    kernel = shape("matmul", "fp16")
    with FakeCuda(computes=False) as cuda:
        step = opened(kernel)
        begun_ns = cuda.clock.now_ns()
        assert begun_ns == cuda.launches[-1].end_ns  # loading ends when the first run has
        step()
    assert cuda.clock.now_ns() == cuda.launches[-1].end_ns
    assert (cuda.clock.now_ns() - begun_ns) / 1e9 == pytest.approx(kernel.flops / cuda.roofs.flops_per_s["fp16"])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", OPERATORS)
def test_results_are_what_the_name_says(name, precision):
    with FakeCuda():
        run = _torch_run(torch, shape(name, precision, 32), "cuda:0", 1, seed=3)
        result = run()
        operands = [each for each in run.args if isinstance(each, torch.Tensor) and each.dim()]
    result, (x, *others) = result.double(), [each.double() for each in operands]
    expected = x @ others[0] if others else x.clamp(min=0) if name == "relu" else x
    tolerance = {"fp16": 1e-2, "bf16": 5e-2, "fp8": 5e-2}.get(precision, 1e-5)
    torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance * 10)
    assert result.abs().sum() > 0


@pytest.mark.parametrize("found", ["highest", "high", "medium"])
@pytest.mark.parametrize("precision", ["fp32", "tf32"])
def test_fp32_and_tf32_whatever_the_process_had_set_and_it_is_set_again(found, precision):
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(found)
    try:
        with FakeCuda(computes=False) as cuda:
            opened(shape("matmul", precision))()
        assert torch.get_float32_matmul_precision() == found
    finally:
        torch.set_float32_matmul_precision(before)
    assert {launch.precision for launch in cuda.launches if launch.name == "mm"} == {precision}


@pytest.mark.parametrize(
    ("precision", "capability", "needed"),
    [("fp8", (8, 7), "8.9"), ("tf32", (7, 5), "8.0"), ("bf16", (7, 2), "8.0"), ("int8", (7, 2), "7.5")],
)
@pytest.mark.parametrize("name", ["matmul", "copy"])
def test_a_precision_that_the_device_lacks_is_refused_before_anything_runs(name, precision, capability, needed):
    cuda = FakeCuda(capability=capability, computes=False)
    with cuda, pytest.raises(DeviceError, match=f"{precision} needs {needed}"):
        opened(shape(name, precision))
    assert cuda.launches == []


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("kernel:matmul:100:int8", "multiples of 8, rows at least 17"),
        ("kernel:matmul:16:int8", "rows at least 17"),
        ("kernel:matmul:64x64x12:int8", "multiples of 8"),
        ("kernel:matmul:64x24x16:fp8", "multiples of 16"),
        ("kernel:matmul:64x32x24:fp8", "multiples of 16"),
    ],
)
def test_shapes_that_cuda_has_no_product_of(reference, said, monkeypatch):
    with FakeCuda(computes=False) as cuda, pytest.raises(InputError, match=said):
        open_kernel(parse_kernel(reference), device="cuda:0", threads=1, seed=0)
    assert cuda.launches == []
    monkeypatch.setattr("edgetune.workloads.kernel_steps._SHAPES", {})
    with FakeCuda(computes=False), pytest.raises(DeviceError, match="cannot run"):  # so does the library itself
        open_kernel(parse_kernel(reference), device="cuda:0", threads=1, seed=0)


def test_a_private_operator_with_other_arguments_is_a_precision_that_is_missing(monkeypatch):
    """Operators whose names begin with an underscore change from one version of PyTorch to the next."""

    def older(a, b, *, out_dtype=None):
        raise AssertionError("it is not reached")

    monkeypatch.setattr(torch, "_scaled_mm", older)
    with FakeCuda(computes=False), pytest.raises(DeviceError, match="cannot run kernel:matmul:4096:fp8"):
        opened(shape("matmul", "fp8"))
