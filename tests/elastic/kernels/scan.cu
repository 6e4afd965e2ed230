// Hillis and Steele, between two halves of dynamic shared memory.
// launch scan grid=4 block=64 shared=512 out=int32[256]:zero in=int32[256]
__global__ void scan(int *out, const int *in) {
    extern __shared__ int sums[];
    int t = threadIdx.x, n = blockDim.x, from = 0;
    sums[t] = in[blockIdx.x * n + t];
    __syncthreads();
    for (int by = 1; by < n; by *= 2) {
        const int to = 1 - from;
        sums[to * n + t] = sums[from * n + t] + (t >= by ? sums[from * n + t - by] : 0);
        from = to;
        __syncthreads();
    }
    out[blockIdx.x * n + t] = sums[from * n + t];
}
