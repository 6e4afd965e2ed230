// Kernels in all places where kernels may stand.
#include <cuda_runtime.h>
#define SQ(x) ((x) * (x))
struct Box { int w, h; float v[3]; };
namespace outer { namespace inner {
struct __align__(8) P { float a, b; };
__host__ __device__ inline float twice(float v) { return 2.0f * v; }
template <int N> __device__ float wide(float v) { return v * N + blockIdx.x; }
__device__ float pick(int i = 2) { return i + gridDim.x; }
__device__ float over(float v) { return v + blockIdx.x; }
__device__ float over(int v) { return v + 2 * blockIdx.x; }
// launch in_space grid=4 block=32 x=float32[128] b=int32:3+int32:4+float32:1,2,3 n=int32:100
__global__ void __launch_bounds__(128, 2) in_space(float *__restrict__ x, Box b, const int n = 5) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    b.v[0] += i;
    if (i >= n) return;
    P p = {x[i], b.v[0]};
    x[i] = twice(p.a) + wide<3>(p.b) + pick() + pick(1) + over(1.0f) + over(1) + SQ(b.w);
}
} }
namespace {
__device__ int row() { return blockIdx.y * gridDim.x + blockIdx.x; }
// launch hidden grid=3,2 block=8,4 x=int32[192]:zero
__global__ void hidden(int *x) {
    __shared__ __align__(16) int s[32];
    int t = threadIdx.y * blockDim.x + threadIdx.x;
    s[t] = t;
    __syncthreads();
    x[row() * 32 + t] = s[31 - t] + row();
}
}
extern "C" {
__device__ int base(void) { return blockIdx.x; }
// launch in_c grid=5 block=16 x=int32[80]:zero k=int32:7
__global__ void in_c(int x[], const __grid_constant__ int k) { x[base() * blockDim.x + threadIdx.x] = base() + k; }
}
#if 1
// launch guarded grid=2,2,3 block=4,2,2 x=int32[192]:zero
static __global__ void guarded(int *x) {
    const uint3 b = blockIdx;
    const dim3 g = gridDim;
    auto place = [&](int t) { return ((b.z * g.y + b.y) * g.x + blockIdx.x) * 16 + t; };
    int t = (threadIdx.z * 2 + threadIdx.y) * 4 + threadIdx.x;
    x[place(t)] = place(t) * 3;
}
#else
__global__ void other(int *x) { x[0] = 1; }
#endif
// launch single grid=5 block=1 x=int32[5]:zero
extern "C" __global__ void single(int *x) { x[blockIdx.x] = 3; } // behind
