// Warps of their own kind of memory: written by one lane, read by another, with __syncwarp in between.
// launch warp_shared grid=3 block=64 out=int32[192]:zero in=int32[192]
__global__ void warp_shared(int *out, const int *in) {
    __shared__ int held[2][32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, i = blockIdx.x * blockDim.x + threadIdx.x;
    held[warp][lane] = in[i];
    __syncwarp();
    int other = held[warp][31 - lane];
    __syncwarp();
    held[warp][lane] = other * 2;
    __syncwarp();
    out[i] = held[warp][(lane + 5) & 31] - other;
}
