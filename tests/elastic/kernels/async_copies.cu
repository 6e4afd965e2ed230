// Asynchronous copies that each thread waits for itself, or its block.
// launch primitives grid=5 block=64 out=float32[320]:zero in=float32[320]
// launch by_block grid=4 block=64 out=float32[256]:zero in=float32[256]
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda_pipeline.h>

namespace cg = cooperative_groups;

__global__ void primitives(float *out, const float *in) {
    __shared__ float s[64];
    __pipeline_memcpy_async(&s[threadIdx.x], &in[blockIdx.x * 64 + threadIdx.x], sizeof(float));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = s[63 - threadIdx.x] + 1.0f;
}

__global__ void by_block(float *out, const float *in) {
    __shared__ float s[64];
    cg::thread_block block = cg::this_thread_block();
    cg::memcpy_async(block, s, in + blockIdx.x * 64, sizeof(float) * 64);
    cg::wait(block);
    out[blockIdx.x * 64 + threadIdx.x] = 2.0f * s[63 - block.thread_rank()];
}
