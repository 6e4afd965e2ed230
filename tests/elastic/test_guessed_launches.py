"""Launches are guessed from parameters and from the file's own launches, and the one that suits is taken."""

import shutil

import pytest

from edgetune.stages.elastic.guessed_launches import check_guesses, guessed_launches, unguessable
from edgetune.stages.elastic.kernel import HostLaunch
from edgetune.stages.elastic.sample_launches import sample_launches_in
from edgetune.stages.elastic.source.transform import transform

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")


def kernel_of(text, name="k"):
    return next(each.kernel for each in transform(text, "k.cu").kernels if each.kernel.name == name)


def taken(text, name="k"):
    """Return the guess that is taken for a kernel, without its name, and the answer."""
    done = transform(text, "k.cu")
    kernel = next(each.kernel for each in done.kernels if each.kernel.name == name)
    best, verdict = check_guesses(done, guessed_launches(kernel), name="k.cu")
    return best.words.removeprefix(f"{name} "), verdict.answer


@pytest.mark.parametrize(
    ("place", "launch"),
    [
        ("threadIdx.x", "grid=4 block=64"),
        ("blockIdx.y", "grid=4 block=64"),
        ("threadIdx . y", "grid=2,2 block=16,16"),
        ("ROW", "grid=2,2 block=16,16"),
        ("helper()", "grid=2,2,2 block=8,4,4"),
    ],
)
def test_the_first_guess_has_the_axes_that_the_kernel_asks_for(place, launch):
    text = "#define ROW (threadIdx.y)\n__device__ int helper() { return threadIdx.z; }\n"
    kernel = kernel_of(f"{text}__global__ void k(int *x) {{ x[0] = {place}; }}")
    assert guessed_launches(kernel)[0] == f"k {launch} x=int32[65536]:0..16"


TYPES = """typedef unsigned int I32;
typedef float2 Complex;
using Real = double;
#define NUMBER float
typedef struct __align__(16) { float4 at; int id; } Vertex;
struct Mixed { char flag; Real d[2]; __device__ void turn() {} };
struct Linked { Linked *next; };
struct Base { int a; };
struct Derived : Base { int b; };
#ifdef WIDE
typedef double Either;
#else
typedef float Either;
#endif
#ifdef WIDE
typedef float2 Same;
#else
typedef struct { float x; float y; } Same;
#endif
"""


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ("I32 *", "uint32[65536]:0..16"),
        ("const NUMBER *__restrict__", "float32[65536]"),
        ("float x[]", "float32[65536]"),
        ("Complex *", "float32[65536]"),
        ("uchar4 *", "uint8[65536]:0..16"),
        ("Same *", "float32[65536]"),
        ("half2 *", "float16[65536]"),
        ("const __nv_bfloat16 *", "float16[65536]"),
        ("clock_t *", "int64[65536]:0..16"),
        ("curandState *", "uint64[65536]:0..16"),
        ("curandStatePhilox4_32_10_t *__restrict__", "uint64[65536]:0..16"),
        ("curandDirectionVectors32_t *", "uint32[65536]:0..16"),
        ("Vertex *", "int32[65536]:0..16"),
        ("Real", "float64:1"),
        ("float3", "float32:1,1,1"),
        ("unsigned long long int", "uint64:256"),
        ("short", "int16:256"),
        ("struct Mixed", "int8:1+uint8:1,1,1,1,1,1,1+float64:1,1"),
        ("Linked *", None),
        ("Derived", None),
        ("Either *", None),
        ("float **", None),
        ("cudaTextureObject_t *", "uint64[65536]:0..16"),
        ("cudaSurfaceObject_t *", None),
        ("cudaExtent", "uint64:256,256,256"),
        ("const void *", "int32[65536]:0..16"),
        ("void **", None),
        ("Unheard *", None),
        ("curandState **", None),
        ("curandState", None),
        ("curandStateSobol64_t *", None),
    ],
)
def test_a_parameter_is_guessed_where_it_is_made_of_plain_numbers(declared, words):
    parameter = declared if declared.endswith("]") else f"{declared} x"
    kernel = kernel_of(f"{TYPES}__global__ void k({parameter}) {{ }}")
    assert guessed_launches(kernel)[0] == f"k grid=4 block=64 x={words or '...'}"
    open_one = unguessable(kernel)
    assert (open_one is None) == (words is not None)


@needs_compiler
def test_variables_of_the_file_count_as_changed_memory():
    text = """__device__ float values[64];
    __global__ void k(int n) { if (blockIdx.x == 0 && threadIdx.x < n) values[threadIdx.x] = 1 + threadIdx.x; }"""
    done = transform(text, "k.cu")
    verdict = check_guesses(done, guessed_launches(kernel_of(text)), name="k.cu")[1]
    assert (verdict.answer, verdict.reason) == ("equal", "")


@needs_compiler
def test_random_numbers_are_drawn_from_guessed_states():
    text = """#include <curand_kernel.h>
    __global__ void k(curandState *states, float *out) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        curandState mine = states[i];
        out[i] = curand_uniform(&mine);
        states[i] = mine;
    }
    """
    assert taken(text) == ("grid=4 block=64 states=uint64[65536]:0..16 out=float32[65536]", "equal")
    racy = text.replace("states[i] = mine", "states[i / 2] = mine")
    assert taken(racy)[1] == "racy"


def test_a_parameter_with_a_name_of_the_launch_is_called_otherwise():
    kernel = kernel_of("__global__ void k(int *grid, int block) { grid[threadIdx.x] = block; }")
    (launch,) = sample_launches_in(f"// launch {guessed_launches(kernel)[0]}", "k.cu")
    assert (launch.call.logical.grid, launch.call.logical.block) == ((4, 1, 1), (64, 1, 1))


HOST = """#define TILE 16
const int N = 1 << 6;
template <int B> __global__ void k(float *x) { x[blockIdx.x * B + threadIdx.x] += 1; }
template <int B> void run(float *x) { k<B><<<N / B, B, B * sizeof(float2)>>>(x); }
int main(int argc, char **argv) {
    int width = 1024;
    dim3 block(TILE, TILE / 2), grid(width / block.x, argc);
    dim3 row = dim3(32);
    k<8><<<grid, block>>>(0);
    k<8><<<grid, block, 0, 0>>>(0);
    k<8><<<4096, row, argc>>>(0);
    k<8><<<1, argc>>>(0);
    run<4>(0);
}
"""


def test_a_comment_behind_a_constant_is_no_part_of_it():
    text = "#define B 96  // threads\n#define G /* blocks */ 3\n__global__ void k() {}\nvoid f() { k<<<G, B>>>(); }"
    assert kernel_of(text).launches == (HostLaunch((3,), (96,)),)


def test_launches_of_the_file_are_read_as_far_as_they_are_constant():
    through_a_template = HostLaunch((8,), (8,), 64)
    constant = (HostLaunch((64, None), (16, 8), 0), HostLaunch((4096,), (32,), None))
    assert kernel_of(HOST, "k_8").launches == (through_a_template, *constant)
    assert kernel_of(HOST, "k_4").launches == (HostLaunch((16,), (4,), 32),)


def test_a_launch_by_a_variable_may_be_of_any_kernel_that_is_not_launched_by_name():
    kernels = "__global__ void k(int *x) {}\n__global__ void named(int *x) {}\n"
    host = "void f(void (*of)(int *)) { of<<<2, 96>>>(0); named<<<2, 48>>>(0); }"
    assert kernel_of(kernels + host).launches == (HostLaunch((2,), (96,)),)
    assert kernel_of(kernels + host, "named").launches == (HostLaunch((2,), (48,)),)


@needs_compiler
def test_a_guess_that_changes_little_is_told():
    done = transform("__global__ void k(int *x, int n) { if (n < 0) x[threadIdx.x] = 1; }", "k.cu")
    _, verdict = check_guesses(done, guessed_launches(done.kernels[0].kernel), name="k.cu")
    assert (verdict.answer, verdict.reason) == ("no output", "it changes no memory: there is nothing to compare")


def test_guesses_begin_with_the_blocks_of_the_file_on_small_grids():
    guesses = guessed_launches(kernel_of("#define B 96\n__global__ void k(int n) {}\nvoid f() { k<<<n, B>>>(1); }"))
    assert guesses[0] == "k grid=4 block=96 n=int32:384"
    single = guessed_launches(kernel_of("__global__ void k() {}\nvoid f() { k<<<1, 96>>>(); }"))
    assert single[:2] == ("k grid=4 block=96", "k grid=1 block=96")


@needs_compiler
def test_with_a_guessed_size_all_threads_work():
    text = "__global__ void k(float *x, int n) { int i = blockIdx.x * 64 + threadIdx.x; if (i < n) x[i] += 1; }"
    assert taken(text) == ("grid=4 block=64 x=float32[65536] n=int32:256", "equal")


@needs_compiler
def test_a_guess_that_crashes_or_is_racy_is_not_taken():
    tile = """__global__ void k(float *y, int w) {
        __shared__ float t[8][8];
        t[threadIdx.y][threadIdx.x] = y[(blockIdx.y * 8 + threadIdx.y) * w + blockIdx.x * 8 + threadIdx.x];
        __syncthreads();
        y[(blockIdx.y * 8 + threadIdx.y) * w + blockIdx.x * 8 + threadIdx.x] = 2 * t[threadIdx.y][threadIdx.x];
    }"""
    words, answer = taken(tile)
    assert words.startswith("grid=2,2 block=8,8 ")
    assert answer == "equal"
    far = "__global__ void k(float *x, int n) { x[(threadIdx.x + 64 * blockIdx.x) * n * n] += 1; }"
    assert taken(far) == ("grid=4 block=64 x=float32[65536] n=int32:16", "equal")


@needs_compiler
@pytest.mark.parametrize(
    ("body", "taken_words"),
    [
        ("if (r > 8 || w < 64) x += 1 << 20; if (i < w) x[i] += h;", ":0..16 w=int32:256 h=int32:256 r=int32:4"),
        ("int zeros = 0; for (int j = 0; j < 64; ++j) zeros += x[j] == 0; if (!zeros && i >= 64) x[i] += 1;", "1..17"),
    ],
    ids=["a radius beside sizes", "a factor that is not 0"],
)  # fmt: skip
def test_one_integer_may_be_small_and_memory_without_zeros(body, taken_words):
    words, answer = taken(
        f"__global__ void k(int *x, int w, int h, int r){{ int i = blockIdx.x * blockDim.x + threadIdx.x; {body} }}"
    )
    assert taken_words in words
    assert answer == "equal"


@needs_compiler
def test_a_rank_reads_all_axes_and_means_a_row_of_threads():
    text = """#include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    __device__ int rank() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
    __global__ void k(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] = rank(); }"""
    assert taken(text) == ("grid=4 block=64 x=float32[65536]", "equal")


@needs_compiler
def test_guesses_that_do_not_end_are_given_up_soon(monkeypatch):
    monkeypatch.setattr("edgetune.stages.elastic.guessed_launches._MOST_HANGS", 1)  # each takes a second
    text = "__global__ void k(int *x, int n) { while (n) x[threadIdx.x] += 1; }"
    words, answer = taken(text)
    assert (words, answer) == ("grid=4 block=64 x=int32[65536]:0..16 n=int32:256", "fails")
