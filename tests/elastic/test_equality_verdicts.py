"""Verdicts of the check: races, failures, sums, variables of the file; and the ways in which forms are tried."""

from dataclasses import replace

import pytest
from kernel_corpus import BRIEF
from ptx_corpus import compiled, made

from edgetune.errors import InputError
from edgetune.stages.elastic.cpu_equivalence import Matrix, Verdict, check, ways
from edgetune.stages.elastic.gpu import Logical
from edgetune.stages.elastic.kernel import CudaKernel, ElasticKernel, TransformResult, Variant
from edgetune.stages.elastic.sample_launches import sample_launches_in

KERNEL = "__global__ void k"


def verdict(text: str, launch: str = "grid=4 block=8", old: str = "", new: str = "", **about: bool) -> Verdict:
    """Return the verdict of a kernel, of whose grid form a text is replaced, and of which something else is said."""
    done = made(text)
    if old:
        at = done.source.index(".entry k__grid")
        form = done.source[at:].replace(old, new)
        assert form != done.source[at:]
        done = replace(done, source=done.source[:at] + form)
    kernels = tuple(replace(each, kernel=replace(each.kernel, **about)) for each in done.kernels)
    launches = sample_launches_in(f"// launch k {launch}\n", "k.cu")
    return check(replace(done, kernels=kernels), launches, matrix=BRIEF, limit_s=1)[0]


def test_a_kernel_that_differs_from_itself_is_racy() -> None:
    found = verdict(f"{KERNEL}(int *a) {{ a[0] = threadIdx.x; }}", "grid=1 block=8 a=int32[1]")
    assert found.answer == "racy"
    assert found.reason == "the original differs from itself in reverse order: a[0] is 0, not 7; 1 of 1 differ"
    of_blocks = f"{KERNEL}(int *a) {{ if (blockIdx.x) a[blockIdx.x] = a[blockIdx.x - 1] + 1; }}"
    assert verdict(of_blocks, "grid=64 block=1 a=int32[64]").answer == "racy"


def test_an_original_that_reads_what_it_has_not_written_is_not_the_fault_of_its_forms() -> None:
    body = "__shared__ int held[8]; if (!blockIdx.x) held[threadIdx.x] = 1; __syncthreads();"
    body += " a[8 * blockIdx.x + threadIdx.x] = held[7];"
    assert verdict(f"{KERNEL}(int *a) {{ {body} }}", "grid=2 block=8 a=int32[16]").answer == "racy"


def test_what_a_clock_says_differs() -> None:
    assert verdict(f"{KERNEL}(long long *a) {{ a[0] = clock64(); }}", "grid=1 block=1 a=int64[1]").answer == "racy"


def test_forms_that_need_whole_rows_are_not_run_in_other_blocks() -> None:
    text = f"{KERNEL}(int *a) {{ if (!threadIdx.y) a[threadIdx.x] = __shfl_down_sync(~0u, threadIdx.x, 1); }}"
    assert verdict(text, "grid=1 block=32,2 a=int32[32]").answer == "equal"
    assert verdict(text, "grid=1 block=16 a=int32[32]").answer == "equal"
    with pytest.raises(InputError, match="k: its forms stop in blocks whose rows of threads are no whole warps"):
        verdict(text, "grid=1 block=16,2 a=int32[32]")


def test_an_original_that_fails_is_said() -> None:
    found = verdict(f"{KERNEL}(int *a) {{\n\n a[99] = 1;\n}}", "grid=1 block=1 a=int32[1]")
    assert found.answer == "fails"
    assert found.reason.startswith("crash: a write outside of all buffers (line ")
    assert found.reason.endswith("), in forward order")


def test_sums_of_floats_in_any_order_are_equal_where_they_are_known_to_be_sums() -> None:
    text = f"{KERNEL}(float *s, const float *a) {{ atomicAdd(s, a[threadIdx.x]); }}"
    launch = "grid=1 block=256 s=float32[1]:zero a=float32[256]"
    assert verdict(text, launch, float_atomics=False).answer == "racy"
    assert verdict(text, launch).answer == "equal"


NANS = """
struct edgetune_launch_t { unsigned int grid[3], block[3], first, count; };
// launch k grid=2 block=4 a=float32[8]:zero
extern "C" __global__ void k(float *a) { a[blockIdx.x * 4 + threadIdx.x] = __int_as_float(0x7fc00000); }
extern "C" __global__ void k__grid(float *a, edgetune_launch_t launch) {
    for (unsigned b = blockIdx.x; b < launch.count; b += gridDim.x)
        a[(launch.first + b) * 4 + threadIdx.x] = __int_as_float(0x7fc12345);
}
"""


@pytest.mark.parametrize(("bits", "answer"), [("0xffc12345", "equal"), ("0x7f800000", "different")])
def test_numbers_that_are_none_are_equal(bits: str, answer: str) -> None:
    elastic = ElasticKernel(CudaKernel("k", 2, ()), (Variant("k__grid", "grid"),))
    done = TransformResult(compiled(NANS.replace("0x7fc12345", bits)), (elastic,))
    (found,) = check(done, sample_launches_in(NANS, "k.cu"), matrix=BRIEF)
    assert found.answer == answer, found.reason


def test_ways_cover_each_logical_block_once_and_differ() -> None:
    elastic = ElasticKernel(CudaKernel("k", 1, ()), (Variant("k__grid", "grid"), Variant("k__block4", "block", 4)))
    found = list(ways(elastic, Logical((6, 2, 1), (50, 2, 1)), Matrix()))
    assert len(set(found)) == len(found)
    for way in found:
        assert sorted(block for first, count in way.shards for block in range(first, first + count)) == list(range(12))
    assert {way.block for way in found if way.symbol == "k__block4"} == {(25, 1, 1)}
    assert {way.block for way in found if way.symbol == "k__grid"} == {(50, 2, 1)}
    assert any(way.blocks > max(count for _, count in way.shards) for way in found)
    assert any(way.shards != tuple(sorted(way.shards)) for way in found)
    assert {way.shards for way in ways(elastic, Logical((1, 1, 1), (8, 1, 1)), Matrix())} == {((0, 1),)}


def test_lanes_of_warps_keep_their_places() -> None:
    forms = tuple(Variant(f"k__block{each}", "block", each) for each in (2, 4, 8))
    elastic = ElasticKernel(CudaKernel("k", 1, (), warp=True), forms)
    assert {way.block[0] for way in ways(elastic, Logical((2, 1, 1), (64, 1, 1)), BRIEF)} == {32}


PLACES = f"__device__ int places[32];\n{KERNEL}() {{ places[blockIdx.x * 8 + threadIdx.x] = 1 + blockIdx.x; }}\n"


@pytest.mark.parametrize(
    ("declared", "body", "answer", "said"),
    [
        ("__device__ int some[4];", "some[1] = blockIdx.x;", "racy", "not 3"),
        ("struct Pair { int a; char b; }; __device__ Pair pair;", "pair.a = blockIdx.x;", "racy", "pair[0] is "),
        ("__device__ float sum;", "atomicAdd(&sum, 0.1f * threadIdx.x);", "equal", ""),
    ],
)
def test_variables_of_the_file_are_compared(declared: str, body: str, answer: str, said: str) -> None:
    found = verdict(f"{declared}\n{KERNEL}() {{ {body} }}\n")
    assert found.answer == answer
    assert said in found.reason


def test_a_form_that_leaves_a_variable_wrong_is_different() -> None:
    assert verdict(PLACES).answer == "equal"
    found = verdict(PLACES, old=", 1;\n", new=", 2;\n")
    assert found.answer == "different"
    assert "places[0]" in found.reason


def test_what_changes_no_memory_is_not_called_equal() -> None:
    found = verdict(f"{KERNEL}(int *a) {{ if (threadIdx.x > 99) a[0] = 1; }}", "grid=4 block=8 a=int32[4]")
    assert found.answer == "no output"
    assert found.reason == "it changes no memory that could be compared"
