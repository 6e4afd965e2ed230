"""Of CUDA's runtime only launches, copies and waits are refused, and never a name of the file's own."""

import pytest

from edgetune.stages.elastic.source.transform import transform


def codes(text):
    kernel = next(each for each in transform(text, "k.cu").kernels if each.kernel.name == "k")
    return {each.code for each in kernel.refusals if each.level == "grid"}


def kernel(statement, before=""):
    return f"{before}\n__global__ void leaf(float *x) {{ *x = 1; }}\n__global__ void k(float *x) {{ {statement} }}\n"


@pytest.mark.parametrize(
    ("before", "statement"),
    [
        ("__constant__ float cudaScale;", "x[0] *= cudaScale;"),
        ("struct cudaBox { float v; };", "cudaBox box = {2}; x[0] *= box.v;"),
        ("#define cudaTwo 2.0f", "x[0] *= cudaTwo;"),
        ("", "cudaFree(x);"),
        ("", "float *p; if (cudaMalloc(&p, 4) == cudaSuccess) *p = x[0];"),
        ("", "cudaStream_t stream; x[0] = 1;"),
        ("", "if (cudaGetLastError() == cudaErrorInvalidValue) x[0] = 1;"),
        ("__device__ float cuFactor(float v) { return v * 2; }", "x[0] = cuFactor(x[0]);"),
    ],
)
def test_what_launches_and_waits_for_nothing_is_accepted(before, statement):
    assert codes(kernel(statement, before)) == set()


@pytest.mark.parametrize(
    "statement",
    [
        "leaf<<<1, 1>>>(x);", "cudaDeviceSynchronize();", "cudaStreamSynchronize(0);", "cudaLaunchDevice(0, 0, 0);",
        "cudaMemcpyAsync(x, x + 1, 4, cudaMemcpyDeviceToDevice);", "cudaMemsetAsync(x, 0, 4);",
        "cudaGraphLaunch(0, 0);", "cudaGridDependencySynchronize();", "cudaTriggerProgrammaticLaunchCompletion();",
        "cudaEventRecord(0, 0);", "cudaStream_t s; cudaStreamCreateWithFlags(&s, 1);", "cudaGetParameterBuffer(4, 4);",
        "cudaLaunchKernelEx(0, leaf, x);", "cudaGraphSetConditional(0, 1);", "cudaThreadSynchronize();",
    ],
)  # fmt: skip
def test_launches_and_waits_are_refused(statement):
    assert codes(kernel(statement)) == {"dynamic-parallelism"}
    assert "dynamic-parallelism" in codes(kernel("go(x);", f"__device__ void go(float *x) {{ {statement} }}"))


@pytest.mark.parametrize("name", ["cudaLaunchDevice", "cudaDeviceSynchronize", "cudaStreamScale"])
def test_a_name_that_may_be_a_launch_is_refused_even_where_the_file_gives_it_a_meaning(name):
    assert codes(kernel(f"x[0] = {name}(1);", f"__device__ int {name}(int a) {{ return a; }}")) == {
        "dynamic-parallelism"
    }


@pytest.mark.parametrize("macro", ["#define GO leaf<<<1, 1>>>(x)", "#define GO START(x)\n#define START leaf<<<1, 1>>>"])
def test_a_launch_in_a_macro_is_refused(macro):
    assert "dynamic-parallelism" in codes(kernel("GO;", macro))


@pytest.mark.parametrize("word", ["cudaScale", "cudaGetCurrentGraphExec", "cuFactor", "cudaRuntimeGetVersion"])
def test_other_names_that_mean_nothing_are_unknown(word):
    assert codes(kernel(f"x[0] = {word};")) == {"unknown-name"}


@pytest.mark.parametrize("word", ["CUDART_PI", "CUDART_INF_F", "cufftReal(1)", "cuCrealf(make_cuComplex(1, 2))"])
def test_words_of_libraries_are_known(word):
    assert codes(kernel(f"x[0] = {word};", "#include <cufft.h>\n#include <math_constants.h>")) == set()


@pytest.mark.parametrize("word", ["CUDART_SOMETHING", "cufftExecC2C(0, 0)", "curandStateMtgp32(x)", "cufftHandle(1)"])
def test_others_of_them_are_not(word):
    assert codes(kernel(f"x[0] = {word};", "#include <cufft.h>\n#include <curand_kernel.h>")) == {"unknown-name"}
