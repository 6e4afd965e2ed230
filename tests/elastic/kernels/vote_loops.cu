// Loops that all threads of a block leave together, by a vote.
// launch sorted grid=3 block=64 x=int32[192] n=int32:200
// launch halved grid=2 block=32 x=int32[64]:0..1000 n=int32:7
__global__ void sorted(int *x, int n) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 64 + t];
    while (true) {
        __syncthreads();
        int here = s[t], next = t + 1 < 64 ? s[t + 1] : here;
        __syncthreads();
        if (here > next) s[t] = next;
        bool done = __syncthreads_and(here <= next);
        if (done) break;
        if (--n < 0) break;
    }
    x[blockIdx.x * 64 + t] = s[t];
}
__global__ void halved(int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    while (__syncthreads_or(x[i] > n)) {
        x[i] /= 2;
        n++;
    }
}
