"""The fake CUDA device refuses what CUDA's operators refuse, and memory beyond what it has."""

import pytest

torch = pytest.importorskip("torch")

from fakes.torch_cuda import FakeCuda  # noqa: E402 - not without torch

GPU = {"device": "cuda:0"}


def eight(rows, columns):
    return torch.empty((rows, columns), dtype=torch.float16, **GPU).normal_().to(torch.float8_e4m3fn)


def scaled(a, b, out_dtype=torch.bfloat16):
    one = torch.ones((), **GPU)
    out = torch.empty((a.shape[0], b.shape[1]), dtype=torch.bfloat16, **GPU)
    return torch._scaled_mm(a, b, one, one, out_dtype=out_dtype, out=out)


def integers(m, k, n):
    a, b = (torch.empty(size, dtype=torch.int8, **GPU) for size in ((m, k), (k, n)))
    return torch._int_mm(a, b, out=torch.empty((m, n), dtype=torch.int32, **GPU))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: scaled(eight(32, 32), eight(32, 32)), "row-major and column-major"),
        (lambda: scaled(eight(32, 24), eight(32, 24).t()), "divisible by 16"),
        (lambda: torch.clamp_min(eight(4, 4), 0, out=eight(4, 4)), "Float8_e4m3fn"),
        (lambda: torch.mm(eight(4, 4), eight(4, 4), out=eight(4, 4)), "addmm_cuda"),
        (lambda: torch.empty(4, 4, **GPU).copy_(torch.empty(4, 4)), "same device"),
        (lambda: integers(16, 32, 32), "greater than 16"),
        (lambda: integers(32, 20, 32), "multiple of 8"),
        (lambda: torch.empty(1 << 20, **GPU), "CUDA out of memory"),
    ],
)
def test_the_fake_refuses_as_cuda_does(call, said):
    with FakeCuda(memory_bytes=1 << 20), pytest.raises((RuntimeError, NotImplementedError), match=said):
        call()
