#include <cooperative_groups.h>
#include <cuda/pipeline>

__global__ void fetch(float *y, const float *x) {
    __shared__ float s[64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto pipe = cuda::make_pipeline(cooperative_groups::this_thread_block(), &state);
    cuda::memcpy_async(&s[threadIdx.x], &x[blockIdx.x * 64 + threadIdx.x], sizeof(float), pipe);
    pipe.consumer_wait();
    y[blockIdx.x * 64 + threadIdx.x] = s[63 - threadIdx.x];
}
