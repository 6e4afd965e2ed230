"""The fake CUDA device: it refuses what CUDA's operators refuse, counts memory, and works one launch at a time."""

import pytest

torch = pytest.importorskip("torch")

from fakes.torch_cuda import FakeCuda, Roofs  # noqa: E402 - not without torch

GPU = {"device": "cuda:0"}


def eight(rows, columns):
    return torch.empty((rows, columns), dtype=torch.float16, **GPU).normal_().to(torch.float8_e4m3fn)


def test_the_fake_gpu_exists_only_inside_its_context():
    before = torch.cuda.is_available()
    with FakeCuda(capability=(8, 7)):
        assert torch.cuda.is_available()
        assert torch.cuda.get_device_capability("cuda:0") == (8, 7)
        assert torch.empty(3, **GPU).device == torch.device("cuda:0")
        assert torch.empty(3).device == torch.device("cpu")
    assert torch.cuda.is_available() == before


def test_memory_is_counted_by_storage_and_refused_beyond_what_there_is():
    with FakeCuda(memory_bytes=3 << 20, computes=False) as cuda:
        x = torch.empty((1024, 256), **GPU)
        view = x.t()
        assert cuda.held_bytes == 1 << 20
        del x
        assert cuda.held_bytes == 1 << 20  # the view holds it
        y = torch.empty((1024, 256), dtype=torch.float64, **GPU)
        with pytest.raises(torch.cuda.OutOfMemoryError, match="CUDA out of memory"):
            torch.empty(1, **GPU)
        del view, y
        assert (cuda.held_bytes, cuda.most_bytes) == (0, 3 << 20)


def test_work_runs_during_waits_and_takes_the_time_of_its_roof():
    roofs = Roofs({"fp32": 1e9, "tf32": 2e9}, bytes_per_s=1e9)
    with FakeCuda(computes=False, roofs=roofs) as cuda:
        a, c = torch.empty((1000, 1000), **GPU), torch.empty((1000, 1000), **GPU)
        torch.mm(a, a, out=c)
        c.copy_(a)
        assert cuda.clock.now_ns() == 0
        torch.cuda.synchronize("cuda:0")
        assert cuda.clock.now_ns() == 2_000_000_000 + 8_000_000
        torch.cuda.synchronize("cuda:0")
        assert cuda.clock.now_ns() == 2_008_000_000
    assert [(launch.name, launch.start_ns) for launch in cuda.launches] == [("mm", 0), ("copy_", 2_000_000_000)]
    half_j = roofs.static_w + roofs.flop_j * 1e9 + roofs.byte_j * 4e6
    assert cuda.energy_until_j(1.0) == pytest.approx(half_j)
    whole_j = roofs.static_w * 10 + roofs.flop_j * 2e9 + roofs.byte_j * 16e6
    assert cuda.energy_until_j(10.0) == pytest.approx(whole_j)


def test_tf32_has_ten_bits_and_needs_ampere():
    before = torch.get_float32_matmul_precision()

    def product(capability, flag):
        torch.manual_seed(1)
        with FakeCuda(capability=capability) as cuda:
            a, c = torch.empty((64, 64), **GPU).normal_(), torch.empty((64, 64), **GPU)
            torch.set_float32_matmul_precision(flag)
            torch.mm(a, a, out=c)
        return cuda.launches[-1].precision, c, a.double() @ a.double()

    try:
        for capability, flag, name, error in (
            ((8, 0), "high", "tf32", 2e-2), ((8, 0), "highest", "fp32", 1e-5), ((7, 5), "high", "fp32", 1e-5),
        ):  # fmt: skip
            precision, result, exact = product(capability, flag)
            assert precision == name
            assert error / 100 < (result - exact).abs().max() < error or name == "fp32"
            torch.testing.assert_close(result.double(), exact, rtol=0, atol=error)
    finally:
        torch.set_float32_matmul_precision(before)


def scaled(a, b, out_dtype=torch.bfloat16, **changed):
    one = torch.ones((), **GPU)
    out = torch.empty((a.shape[0], b.shape[1]), dtype=torch.bfloat16, **GPU)
    return torch._scaled_mm(a, b, one, one, out_dtype=out_dtype, out=changed.get("out", out))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: scaled(eight(32, 32), eight(32, 32)), "row-major and column-major"),
        (lambda: scaled(eight(32, 32).t(), eight(32, 32).t()), "row-major and column-major"),
        (lambda: scaled(eight(32, 24), eight(32, 24).t()), "divisible by 16"),
        (lambda: scaled(eight(32, 32), eight(32, 32).t(), torch.float16), "out_dtype must match"),
        (lambda: torch.clamp_min(eight(4, 4), 0, out=eight(4, 4)), "Float8_e4m3fn"),
        (lambda: torch.mm(eight(4, 4), eight(4, 4), out=eight(4, 4)), "addmm_cuda"),
        (lambda: torch.mm(torch.empty(4, 4, **GPU), torch.empty(4, 4), out=torch.empty(4, 4, **GPU)), "same device"),
        (lambda: torch.empty(4, 4, **GPU).copy_(torch.empty(4, 4)), "same device"),
    ],
)
def test_the_fake_refuses_as_cuda_does(call, said):
    with FakeCuda(), pytest.raises((RuntimeError, NotImplementedError), match=said):
        call()


def test_fp8_needs_ada():
    with FakeCuda(capability=(8, 7)), pytest.raises(RuntimeError, match=r"compute capability >= 8\.9"):
        scaled(eight(32, 32), eight(32, 32).t())
    with FakeCuda(capability=(8, 9)):
        assert scaled(eight(32, 32), eight(32, 32).t()).shape == (32, 32)


@pytest.mark.parametrize(
    ("rows", "inner", "columns", "said"),
    [(16, 32, 32, "greater than 16"), (32, 20, 32, "multiple of 8"), (32, 32, 20, "multiple of 8")],
)
def test_products_of_integers_have_their_shapes(rows, inner, columns, said):
    def product(m, k, n):
        a, b = (torch.empty(size, dtype=torch.int8, **GPU).random_(-128, 128) for size in ((m, k), (k, n)))
        return a, b, torch._int_mm(a, b, out=torch.empty((m, n), dtype=torch.int32, **GPU))

    with FakeCuda(), pytest.raises(RuntimeError, match=said):
        product(rows, inner, columns)
    with FakeCuda():
        a, b, c = product(17, 8, 8)
    assert torch.equal(c.long(), a.long() @ b.long())
