// Some lanes of each warp sum in a function, with a mask of those that voted for it.
// launch masked_sum grid=5 block=64 data=int32[320] few=int32:9
__device__ int below(unsigned int mask, int value) {
    for (int by = 16; by > 0; by /= 2) {
        int other = __shfl_down_sync(mask, value, by);
        if (mask >> ((threadIdx.x % 32 + by) % 32) & 1u && threadIdx.x % 32 + by < 32) value += other;
    }
    return value;
}

__global__ void masked_sum(int *data, int few) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, value = data[at];
    unsigned int mask = __ballot_sync(0xffffffffu, threadIdx.x % 32 < few);
    if (threadIdx.x % 32 < few) value = below(mask, value);
    data[at] = value;
}
