// Asynchronous copies that each thread waits for itself, or its block.
// launch primitives grid=5 block=64 out=float32[320]:zero in=float32[320]
// launch pipelined grid=5 block=32 out=float32[160]:zero in=float32[640]
// launch by_block grid=4 block=64 out=float32[256]:zero in=float32[256]
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/pipeline>
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
            cuda::memcpy_async(&s[(i + 1) % 2][threadIdx.x], &in[blockIdx.x * 128 + i * 32 + 32 + threadIdx.x], shape, pipe);
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

__global__ void by_block(float *out, const float *in) {
    __shared__ float s[64];
    cg::thread_block block = cg::this_thread_block();
    cg::memcpy_async(block, s, in + blockIdx.x * 64, sizeof(float) * 64);
    cg::wait(block);
    out[blockIdx.x * 64 + threadIdx.x] = 2.0f * s[63 - block.thread_rank()];
}
