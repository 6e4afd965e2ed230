// A barrier loop whose condition is read from shared memory: all threads see the same.
// launch until_quiet grid=4 block=32 data=int32[128] rounds=int32[4]:zero
__global__ void until_quiet(int *data, int *rounds) {
    __shared__ int held[32];
    __shared__ int changed;
    int t = threadIdx.x, round = 0;
    held[t] = data[blockIdx.x * 32 + t];
    if (t == 0) changed = 1;
    __syncthreads();
    while (changed) {
        int left = t > 0 ? held[t - 1] : held[t];
        __syncthreads();
        if (t == 0) changed = 0;
        __syncthreads();
        if (left > held[t]) {
            held[t] = left;
            changed = 1;
        }
        round++;
        __syncthreads();
    }
    data[blockIdx.x * 32 + t] = held[t];
    if (t == 0) rounds[blockIdx.x] = round;
}
