"""Members of class templates that are defined outside of the class are read under their own names."""

import pytest

from edgetune.stages.elastic.source.transform import transform

CLASS = """template <class T> struct Box {
    T *x;
    __device__ Box(T *at);
    __device__ T get() const;
    __device__ operator T() const;
    template <int N> __device__ T more() const;
};
template <class T> inline __device__ Box<T>::Box(T *at) : x(at) { IN_BOX }
template <class T> inline __device__ T Box<T>::get() const { IN_GET return *x; }
template <class T> inline __device__ Box<T>::operator T() const { IN_CONVERSION return *x; }
template <class T> template <int N> inline __device__ T Box<T>::more() const { IN_MORE return *x * N; }
__global__ void k(float *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { Box<float> box(a + i); a[i] = box.get() + box.template more<2>() + box; }
}
"""
PLACES = ("IN_BOX", "IN_GET", "IN_CONVERSION", "IN_MORE")


def refused(text):
    for place in PLACES:
        text = text.replace(place, "")
    (kernel,) = transform(text, "k.cu").kernels
    return {each.code for each in kernel.refusals if each.level == "grid"}


def test_members_are_accepted():
    assert refused(CLASS) == set()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("more", "code"),
    [
        ("while (*(volatile T *)x == T(0)) { }", "spin-wait"),
        ("x[0] = blockIdx.x;", "helper-index"),
        ("__syncthreads();", "barrier-branch"),
        ("__syncwarp();", "warp-branch"),
        ("cudaDeviceSynchronize();", "dynamic-parallelism"),
        ("hidden(x);", "unknown-name"),
    ],
)
def test_what_members_do_counts(place, more, code):
    assert code in refused(CLASS.replace(place, more))


@pytest.mark.parametrize(
    ("place", "more"),
    [
        ("IN_GET", "if (*x == T(0)) return get();"),
        ("IN_GET", "if (*x == T(0)) return Box<T>(x).get();"),
        ("IN_GET", "if (*x == T(0)) return more<1>();"),
        ("IN_MORE", "if (*x == T(0)) return this->template more<N>();"),
    ],
)
def test_members_that_wait_by_calling_themselves_are_refused(place, more):
    text = CLASS.replace(place, more)
    text = text.replace("IN_MORE", "if (*x == T(1)) return get();") if "more<1>" in more else text
    assert "recursion" in refused(text)


def test_a_member_without_a_definition_is_refused():
    text = "".join(line for line in CLASS.splitlines(True) if "::get()" not in line)
    assert refused(text) == {"undefined-function"}
