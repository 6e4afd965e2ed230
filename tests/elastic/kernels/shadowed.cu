// A name declared again inside, while the outer one lives across the barrier.
// launch shadowed grid=4 block=16 out=int32[64]:zero in=int32[64]
__global__ void shadowed(int *out, const int *in) {
    __shared__ int held[16];
    int value = in[blockIdx.x * blockDim.x + threadIdx.x];
    for (int i = 0; i < 2; ++i) {
        int value = held[threadIdx.x] = threadIdx.x * (i + 1);
        __syncthreads();
        value += held[15 - threadIdx.x];
        __syncthreads();
        held[threadIdx.x] = value;
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = value + held[threadIdx.x ^ 1];
}
