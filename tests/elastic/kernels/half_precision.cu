// Half precision: conversions, arithmetic of one number and of two, a sum across threads.
// launch half_axpy grid=4 block=64 y=float16[250] x=float16[250] a=float32:0.3 n=int32:250
// launch half_dot grid=3 block=64 out=float16[3]:zero a=float16[384] b=float16[384]
#include <cuda_fp16.h>

__global__ void half_axpy(half *y, const half *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        half scale = __float2half(a);
        y[i] = __hfma(scale, x[i], y[i]) + __hmul(x[i], x[i]);
        if (y[i] < half(0.0f)) y[i] = -y[i];
    }
}
__global__ void half_dot(half *out, const half *a, const half *b) {
    __shared__ float sums[64];
    int t = threadIdx.x;
    const half2 *a2 = (const half2 *)a + blockIdx.x * 64, *b2 = (const half2 *)b + blockIdx.x * 64;
    float2 product = __half22float2(__hmul2(a2[t], b2[t]));
    sums[t] = product.x + product.y;
    __syncthreads();
    for (int by = 32; by > 0; by >>= 1) {
        if (t < by) sums[t] += sums[t + by];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = __float2half(sums[0]);
}
