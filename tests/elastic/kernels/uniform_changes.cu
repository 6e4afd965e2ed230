// What is the same for all threads changes between its uses: once for all of them, neither never nor for each.
// launch uniform_changes grid=4 block=32 shared=256 out=int32[128]:zero in=int32[128] n=int32:20 mode=int32:2
// launch uniform_changes grid=4 block=32 shared=256 out=int32[128]:zero in=int32[128] n=int32:9 mode=int32:0
__global__ void uniform_changes(int *out, const int *in, int n, int mode) {
    extern __shared__ int both[];
    int *here = both, *there = both + blockDim.x, turn = 0, sum = 0;
    here[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    while (n > 1) {
        int half = (n + 1) / 2;
        there[threadIdx.x] = here[(threadIdx.x + half) % 32] + turn;
        turn++;
        sum += here[threadIdx.x] * turn;
        int *kept = here;
        here = there;
        there = kept;
        if (mode == 2) turn += n;
        n = half;
        __syncthreads();
    }
    if (mode == 0) {
        n = blockIdx.x;
    } else if (mode == 2) {
        there[threadIdx.x] = here[31 - threadIdx.x];
        __syncthreads();
        sum += there[threadIdx.x ^ 4];
        n = -5;
    } else
        return;
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum + n + here[turn % 32];
}
