// Threads that have nothing to do leave before the barriers, at two places.
// launch early_return grid=5 block=32 out=int32[150]:zero in=int32[150] n=int32:150
__global__ void early_return(int *out, const int *in, int n) {
    __shared__ int held[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    held[threadIdx.x] = -1;
    if (i >= n) return;
    held[threadIdx.x] = in[i];
    __syncthreads();
    int left = threadIdx.x > 0 ? held[threadIdx.x - 1] : 0;
    if (in[i] % 7 == 3) {
        out[i] = -left;
        return;
    }
    __syncthreads();
    held[threadIdx.x] = left + 1;
    out[i] = held[threadIdx.x] + left;
}
