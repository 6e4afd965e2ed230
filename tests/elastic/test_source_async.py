"""Asynchronous copies that a thread waits for itself are awaited behind each logical block; all others are refused."""

import pytest
from kernel_corpus import BRIEF

from edgetune.stages.elastic.cpu_equivalence import check
from edgetune.stages.elastic.sample_launches import sample_launches_in
from edgetune.stages.elastic.source.async_copies import AWAIT
from edgetune.stages.elastic.source.transform import transform

HEAD = "#include <cuda/pipeline>\n"
THREAD = "cuda::pipeline<cuda::thread_scope_thread>"
PIPE = f"__shared__ float s[64]; {THREAD} pipe = cuda::make_pipeline();"
COPY = "cuda::memcpy_async(&s[threadIdx.x], &x[threadIdx.x], sizeof(float), pipe);"
READ = "__syncthreads(); x[blockIdx.x * 64 + threadIdx.x] = s[63 - threadIdx.x];"
WAIT = "pipe.consumer_wait(); pipe.consumer_release();"
OLD = "__shared__ float s[64]; __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], 4); __pipeline_commit();"


def told(body, head=HEAD):
    done = transform(f"{head}__global__ void k(float *x, int n) {{ {body} }}\n", "k.cu", persistent=True)
    (kernel,) = done.kernels
    return kernel, {each.code for each in kernel.refusals}, done.source


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("", f"{PIPE} pipe.producer_acquire(); {COPY} pipe.producer_commit(); {WAIT} {READ}"),
        ("", f"{PIPE.replace(THREAD, 'auto')} {COPY} pipe.producer_commit(); {WAIT} {READ}"),
        ("", f"{PIPE} if (threadIdx.x < n) {{ {COPY} }} pipe.producer_commit(); {WAIT} {READ}"),
        ("", f"{PIPE} {COPY} pipe.producer_commit(); cuda::pipeline_consumer_wait_prior<0>(pipe); {READ}"),
        (f"__device__ void load(float *s, const float *x, {THREAD} &pipe) {{ {COPY} }}\n",
         f"{PIPE} load(s, x, pipe); pipe.producer_commit(); {WAIT} {READ}"),
        ("", f"{OLD} __pipeline_wait_prior(0); {READ}"),
        ("", f"{OLD} if (n < 0) return; __pipeline_wait_prior(0); {READ}"),
        ("", f"{OLD} x[n] = 1;"),
    ],
)  # fmt: skip
def test_copies_of_a_thread_are_awaited_behind_each_logical_block(head, body):
    kernel, codes, text = told(body, HEAD + head)
    assert {each.level for each in kernel.variants} == {"grid", "persistent"}, kernel.refusals
    assert codes == {"async-copy"}
    assert text.count(AWAIT) == 2


def test_forms_without_copies_await_none():
    assert "cp.async" not in told("__shared__ float s[64]; s[threadIdx.x] = n; __syncthreads(); x[0] = s[n];")[2]


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("", f"{PIPE} __shared__ cuda::barrier<cuda::thread_scope_block> bar; {COPY.replace('pipe', 'bar')} {READ}"),
        ("", f"{PIPE} {COPY.replace('pipe', '*pipes')} {READ}"),
        ("", f"__shared__ float s[64]; {THREAD} pipe; {COPY} {READ}"),
        ("", f"__shared__ float s[64]; {THREAD} pipe = cuda::make_pipeline(n); {COPY} {READ}"),
        ("", f"__shared__ float s[64]; cuda::pipeline<cuda::thread_scope_block> pipe = cuda::make_pipeline(); {COPY}"),
        ("", f"{PIPE} {{ cuda::pipeline<cuda::thread_scope_block> &pipe = other(); {COPY} }} {READ}"),
        ("", f"{PIPE} auto later = [&](auto &pipe) {{ {COPY} }}; later(pipe); {READ}"),
        (f"template <class P> __device__ void load(float *s, const float *x, P &pipe) {{ {COPY} }}\n",
         f"{PIPE} load(s, x, pipe); {READ}"),
        ("#define thread_scope_thread thread_scope_block\n", f"{PIPE} {COPY} {READ}"),
        ("__device__ void __pipeline_commit() {}\n", f"{OLD} {READ}"),
        ("", f"{OLD} auto wait = __pipeline_wait_prior; wait(0); {READ}"),
        ("", f"__shared__ float s[64]; cuda::device::memcpy_async_tx(&s[0], x, 256, n); {READ}"),
        ("", f"__shared__ float s[64]; __shared__ __mbarrier_t bar; __mbarrier_init(&bar, 64); {READ}"),
    ],
)  # fmt: skip
def test_other_copies_are_refused(head, body):
    kernel, codes, _ = told(body, HEAD + head)
    assert not kernel.variants
    assert codes & {"async-barrier", "unknown-name"}


GROUPS = """#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;
"""
BLOCK = "__shared__ float s[64]; auto block = cg::this_thread_block(); cg::memcpy_async(block, s, x, 256);"


def test_copies_of_a_block_are_awaited_too():
    kernel, codes, text = told(f"{BLOCK} cg::wait(block); x[blockIdx.x] = s[n];", GROUPS)
    assert kernel.variants
    assert codes == {"async-copy"}
    assert text.count(AWAIT) == 2
    assert "cooperative_groups::memcpy_async(block, s, x, 256)" in text


def test_the_wait_for_copies_of_a_block_is_a_barrier():
    kernel, codes, _ = told(f"{BLOCK} if (threadIdx.x < n) cg::wait(block); x[blockIdx.x] = 1;", GROUPS)
    assert not kernel.variants
    assert "barrier-branch" in codes
    kernel, codes, _ = told(f"{BLOCK} if (threadIdx.x < n) return; cg::wait(block); x[blockIdx.x] = 1;", GROUPS)
    assert not kernel.variants
    assert "return-before-barrier" in codes


@pytest.mark.parametrize("wait", ["cg::wait_prior<1>(block)", "cg::wait(block, 1)", "cg::memcpy_async(s, x, block)"])
def test_other_ways_to_wait_are_refused(wait):
    kernel, codes, _ = told(f"{BLOCK} {wait}; x[blockIdx.x] = 1;", GROUPS)
    assert not kernel.variants
    assert "cooperative-groups" in codes


PIPELINED = """// launch pipelined grid=5 block=32 out=float32[160]:zero in=float32[640]
#include <cuda/pipeline>

__device__ void load(float *to, const float *from, cuda::pipeline<cuda::thread_scope_thread> &pipe) {
    pipe.producer_acquire();
    cuda::memcpy_async(to, from, sizeof(float), pipe);
    pipe.producer_commit();
}

__global__ void pipelined(float *out, const float *in) {
    __shared__ float s[2][32];
    const auto shape = cuda::aligned_size_t<alignof(float)>(sizeof(float));
    cuda::pipeline<cuda::thread_scope_thread> pipe = cuda::make_pipeline();
    float sum = 0.0f;
    load(&s[0][threadIdx.x], &in[blockIdx.x * 128 + threadIdx.x], pipe);
    for (int i = 0; i < 4; ++i) {
        if (i < 3) {
            pipe.producer_acquire();
            cuda::memcpy_async(&s[(i + 1) % 2][threadIdx.x],
                               &in[blockIdx.x * 128 + i * 32 + 32 + threadIdx.x], shape, pipe);
            pipe.producer_commit();
            cuda::pipeline_consumer_wait_prior<1>(pipe);
        } else {
            pipe.consumer_wait();
        }
        __syncthreads();
        sum += s[i % 2][31 - threadIdx.x] * (i + 1);
        __syncthreads();
        pipe.consumer_release();
    }
    out[blockIdx.x * 32 + threadIdx.x] = sum;
}
"""
"""Of no file of the corpus, as not every compiler of it has the C++ library of CUDA."""


def test_forms_of_a_pipeline_do_what_the_original_does():
    made = transform(PIPELINED, "pipelined.cu", persistent=True)
    (found,) = check(made, sample_launches_in(PIPELINED, "pipelined.cu"), name="pipelined.cu", matrix=BRIEF)
    assert (found.answer, found.reason) == ("equal", "")
    assert found.forms == 2
