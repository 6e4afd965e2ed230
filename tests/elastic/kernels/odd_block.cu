// A block whose size no power of two divides.
// launch odd_block grid=5 block=27 out=int32[135]:zero in=int32[135]
__global__ void odd_block(int *out, const int *in) {
    __shared__ int held[27];
    int t = threadIdx.x;
    held[t] = in[blockIdx.x * 27 + t];
    __syncthreads();
    int sum = 0;
    for (int i = 0; i <= t; i++) sum += held[i];
    __syncthreads();
    held[26 - t] = sum;
    __syncthreads();
    out[blockIdx.x * 27 + t] = held[t] + t;
}
