// A loop with barriers that all threads break out of together.
// launch break_in_loop grid=4 block=32 out=int32[128]:zero in=int32[128] most=int32:6
__global__ void break_in_loop(int *out, const int *in, int most) {
    __shared__ int held[32];
    int sum = in[blockIdx.x * blockDim.x + threadIdx.x];
    for (int round = 0;; ++round) {
        held[threadIdx.x] = sum;
        __syncthreads();
        if (round == most) break;
        sum += held[(threadIdx.x + round) % 32];
        __syncthreads();
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
