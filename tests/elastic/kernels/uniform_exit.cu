// Whole blocks leave before the barrier; a barrier inside of a branch and a loop without braces around it.
// launch uniform_exit grid=3,3 block=8,4 out=int32[288]:zero in=int32[288] blocks=int32:7 rounds=int32:2
__global__ void uniform_exit(int *out, const int *in, int blocks, int rounds) {
    const int block = blockIdx.y * gridDim.x + blockIdx.x;
    if (block >= blocks) return;
    __shared__ int held[4][8];
    int sum = in[block * 32 + threadIdx.y * 8 + threadIdx.x];
    if (blockIdx.y < 2)
        for (int round = 0; round < rounds; ++round) {
            held[threadIdx.y][threadIdx.x] = sum;
            __syncthreads();
            sum += held[3 - threadIdx.y][7 - threadIdx.x];
            if (round + 1 < rounds) __syncthreads();
        }
    else
        sum = -sum;
    out[block * 32 + threadIdx.y * 8 + threadIdx.x] = sum;
}
