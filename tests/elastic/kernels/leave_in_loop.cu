// Threads leave for good inside of a loop with barriers, each when its own data says so.
// launch leave_in_loop grid=5 block=32 out=int32[160]:zero in=int32[160]:0..12
__global__ void leave_in_loop(int *out, const int *in) {
    __shared__ int steps[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x, own = in[i];
    steps[threadIdx.x] = 0;
    for (int round = 0; round < 8; ++round) {
        __syncthreads();
        int left = threadIdx.x ? steps[threadIdx.x - 1] : 0;
        if (own < round) {
            out[i] = left * 100 + round;
            return;
        }
        __syncthreads();
        steps[threadIdx.x] = left + round;
    }
    out[i] = -steps[threadIdx.x];
}
