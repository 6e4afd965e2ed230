#include <cuda_pipeline.h>

__global__ void fetch(float *y, const float *x) {
    __shared__ float s[64];
    __pipeline_memcpy_async(&s[threadIdx.x], &x[blockIdx.x * 64 + threadIdx.x], sizeof(float));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    y[blockIdx.x * 64 + threadIdx.x] = s[63 - threadIdx.x];
}
