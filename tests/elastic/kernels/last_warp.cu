// A tree of barriers whose end is left to one warp and its shuffles.
// launch last_warp grid=3 block=128 out=int32[3]:zero in=int32[384]
__global__ void last_warp(int *out, const int *in) {
    __shared__ int held[128];
    const unsigned int t = threadIdx.x;
    held[t] = in[blockIdx.x * blockDim.x + t];
    __syncthreads();
    for (unsigned int s = blockDim.x / 2; s >= 32; s >>= 1) {
        if (t < s) held[t] += held[t + s];
        __syncthreads();
    }
    if (t < 32) {
        int sum = held[t];
        for (int by = 16; by; by >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, by);
        if (t == 0) out[blockIdx.x] = sum;
    }
}
