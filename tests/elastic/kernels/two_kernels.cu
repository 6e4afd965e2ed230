// Two kernels of one file share a helper, a type and the names of their shared memory.
// launch block_sums grid=4 block=32 sums=int64[4]:zero in=int32[128]
// launch add_offsets grid=4 block=32 data=int32[128] sums=int64[4]:0..50
typedef long long wide;
__device__ wide folded(wide *held, int t) {
    for (int s = 16; s > 0; s /= 2)
        if (t == 0)
            for (int i = 0; i < s; ++i) held[i] += held[i + s];
    return held[0];
}
__global__ void block_sums(wide *sums, const int *in) {
    __shared__ wide held[32];
    held[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) sums[blockIdx.x] = folded(held, 0);
}
__global__ void add_offsets(int *data, const wide *sums) {
    __shared__ wide held;
    if (threadIdx.x == 0) {
        held = 0;
        for (int i = 0; i < blockIdx.x; ++i) held += sums[i];
    }
    __syncthreads();
    data[blockIdx.x * blockDim.x + threadIdx.x] += static_cast<int>(held);
}
