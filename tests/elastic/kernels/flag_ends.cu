// A loop around barriers of functions that a flag in shared memory ends, and a branch by one.
// launch flag_ends grid=5 block=32 data=int32[160] rounds=int32[5]:zero most=int32:7
__device__ void meet(int *held, int t, int *next) {
    *next = t > 0 && held[t - 1] > held[t] ? held[t - 1] : held[t];
    __syncthreads();
}

__device__ void tell(int &flag, bool changes) {
    if (changes) atomicExch(&flag, 0);
}

__global__ void flag_ends(int *data, int *rounds, int most) {
    __shared__ int held[32];
    __shared__ int done, last;
    int t = threadIdx.x, round = 0, next;
    held[t] = data[blockIdx.x * 32 + t];
    if (t == 0) last = data[blockIdx.x * 32] % 2;
    while (true) {
        __syncthreads();
        if (t == 0) done = 1;
        meet(held, t, &next);
        tell(done, next != held[t]);
        held[t] = next;
        round++;
        __syncthreads();
        if (done == 1 || round > most) break;
    }
    if (last) {
        meet(held, t, &next);
        held[t] = next + __shfl_xor_sync(0xffffffffu, round + t, 1);
    }
    data[blockIdx.x * 32 + t] = held[t];
    if (t == 0) rounds[blockIdx.x] = round;
}
