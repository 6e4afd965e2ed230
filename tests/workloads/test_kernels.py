"""Peak kernels: what each costs by definition, how they are named and refused, and that they compute what they say."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.errors import DeviceError, InputError
from edgetune.workloads.costs import operator_table
from edgetune.workloads.kernel_steps import _host_copy, _numpy_run, _require_precision, _torch_run
from edgetune.workloads.kernels import KERNELS, PRECISIONS, BenchmarkKernel, kernel_of, parse_kernel
from edgetune.workloads.resolve import resolve

SMALL = 64  # rows that the narrow types' kernels accept, and 15 runs' worth of nothing


@pytest.mark.parametrize(
    ("reference", "flops", "moved"),
    [
        ("kernel:matmul:4096", 2 * 4096**3, 4 * 3 * 4096**2),
        ("kernel:matmul:4096:fp16", 2 * 4096**3, 2 * 3 * 4096**2),
        ("kernel:matmul:4096:int8", 2 * 4096**3, (1 + 1 + 4) * 4096**2),
        ("kernel:matmul:4096:fp8", 2 * 4096**3, (1 + 1 + 2) * 4096**2),
        ("kernel:matmul:300x200x100", 2 * 300 * 200 * 100, 4 * (300 * 100 + 100 * 200 + 300 * 200)),
        ("kernel:relu:8192", 8192**2, 2 * 4 * 8192**2),
        ("kernel:transpose:8192:bf16", 0, 2 * 2 * 8192**2),
        ("kernel:copy:8192:int8", 0, 2 * 8192**2),
    ],
)
def test_operations_and_bytes_by_definition(reference, flops, moved):
    kernel = parse_kernel(reference)
    assert (kernel.flops, kernel.bytes_moved) == (flops, moved)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    "size", ["matmul:4096", "matmul:512", "matmul:512x512x64", "relu:512", "transpose:64", "copy:64"]
)
def test_the_operator_table_is_the_whole_step(size, precision):
    reference = f"kernel:{size}:{precision}"
    kernel, table = parse_kernel(reference), operator_table(resolve(reference), "infer", 1)
    assert table.precision == precision
    assert table.flops == kernel.repeats * kernel.flops
    assert table.bytes_moved == kernel.repeats * kernel.bytes_moved
    assert {row.op for row in table.rows} == {KERNELS[kernel.name]}
    assert len({row.name for row in table.rows}) == len(table.rows) == kernel.repeats


@given(
    st.sampled_from(sorted(PRECISIONS)),
    st.one_of(
        st.tuples(st.sampled_from(sorted(KERNELS)), st.integers(1, 1 << 20)),
        st.tuples(st.just("matmul"), st.tuples(*[st.integers(1, 1 << 20)] * 3)),
    ),
)
def test_a_kernel_is_found_by_its_own_name(precision, described):
    name, size = described
    kernel = (
        BenchmarkKernel.square(name, size, precision)
        if isinstance(size, int)
        else BenchmarkKernel(name, *size, precision)
    )
    assert parse_kernel(kernel.reference) == kernel
    assert kernel_of(resolve(kernel.reference), "infer", 1) == kernel


def test_precision_is_in_the_name_or_asked_for():
    unsaid = resolve("kernel:matmul:64")
    assert operator_table(unsaid, "infer", 1).precision == "fp32"
    assert operator_table(unsaid, "infer", 1, precision="bf16").precision == "bf16"
    said = resolve("kernel:matmul:64:int8")
    assert operator_table(said, "infer", 1).precision == "int8"
    with pytest.raises(InputError, match="computes in int8, not in fp16"):
        operator_table(said, "infer", 1, precision="fp16")


def shape(name, precision, rows=SMALL):
    return (
        BenchmarkKernel.square(name, rows, precision)
        if name != "thin"
        else BenchmarkKernel("matmul", rows, 2 * rows, 16, precision)
    )


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16", "int8"])
@pytest.mark.parametrize("name", ["matmul", "thin", "relu", "transpose", "copy"])
def test_pytorch_computes_what_the_name_says(name, precision):
    torch = pytest.importorskip("torch")
    run = _torch_run(torch, shape(name, precision), "cpu", 1, seed=3)
    result = run()
    assert result is run()  # written in place, nothing allocated
    operands = [tensor.double() for tensor in run.args[:2] if isinstance(tensor, torch.Tensor)]
    expected = operands[0] @ operands[1] if len(operands) == 2 else operands[0]
    if name == "relu":
        expected = expected.clamp(min=0)
    tolerance = {"fp16": 1e-2, "bf16": 5e-2}.get(precision, 1e-5)
    torch.testing.assert_close(result.double(), expected, rtol=tolerance, atol=tolerance * SMALL**0.5)
    assert result.abs().sum() > 0
    assert result.element_size() == {"fp32": 4, "int8": 4 if name in ("matmul", "thin") else 1}.get(precision, 2)


def test_eight_bit_floats_where_pytorch_has_them():
    torch = pytest.importorskip("torch")
    try:
        run = _torch_run(torch, shape("thin", "fp8"), "cpu", 1, seed=3)
        result = run()
    except (DeviceError, RuntimeError, NotImplementedError) as error:
        pytest.skip(f"this PyTorch has no product of FP8 on a CPU: {error}")
    a, b = (tensor.double() for tensor in run.args[:2])
    torch.testing.assert_close(result.double(), a @ b, rtol=5e-2, atol=0.1)
    assert result.element_size() == 2


@pytest.mark.parametrize("threads", [1, 3, None])
@pytest.mark.parametrize("name", ["matmul", "thin", "relu", "transpose"])
def test_numpy_stands_in_where_there_is_no_pytorch(name, threads, monkeypatch):
    for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")
    kernel = shape(name, "fp32", rows=50)
    run = _numpy_run(kernel, threads, seed=3)
    result = run()
    assert result is run()
    draw = np.random.default_rng(3)
    x = draw.standard_normal((50, kernel.inner or 50), dtype=np.float32)
    b = draw.standard_normal((kernel.inner, kernel.columns), dtype=np.float32)
    expected = x @ b if kernel.inner else {"relu": np.maximum(x, 0), "transpose": x.T}[name]
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("threads", [1, 3, None])
def test_a_host_copies_bytes_of_any_precision(precision, threads):
    kernel = shape("copy", precision, rows=50)
    result = _host_copy(kernel, threads, seed=3)()
    assert 2 * result.nbytes == kernel.bytes_moved
    drawn = np.random.default_rng(3).integers(0, 256, result.shape, np.uint8)
    np.testing.assert_array_equal(result, drawn)


@pytest.mark.parametrize(
    ("precision", "capability", "refused"),
    [
        ("tf32", (7, 2), "tf32 needs 8.0"),
        ("bf16", (7, 5), "bf16 needs 8.0"),
        ("fp8", (8, 7), "fp8 needs 8.9"),
        ("int8", (7, 2), "int8 needs 7.5"),
        ("fp16", (5, 3), None),
        ("fp32", (5, 3), None),
        ("tf32", (8, 7), None),
        ("fp8", (9, 0), None),
    ],
)
def test_precisions_that_would_quietly_run_as_others(precision, capability, refused):
    """A Jetson Nano is 5.3, Xavier 7.2, Orin 8.7; no such device is here, so that what it answers is made up."""
    cuda = SimpleNamespace(get_device_capability=lambda device: capability)
    library = SimpleNamespace(cuda=cuda, __version__="2.3", _int_mm=None, _scaled_mm=None, float8_e4m3fn=None)
    kernel = BenchmarkKernel.square("matmul", 64, precision)
    if refused is None:
        _require_precision(library, kernel, "cuda:0")
        return
    with pytest.raises(DeviceError, match=refused):
        _require_precision(library, kernel, "cuda:0")
