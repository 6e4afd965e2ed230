// A name that is declared again behind the scope that knew it first; statements that depend on how it is compiled.
// launch apart grid=4 block=16 out=int32[64]:zero in=int32[64]
__global__ void apart(int *out, const int *in) {
    __shared__ int held[16];
    for (int i = 0; i < 2; ++i) {
        int value = held[threadIdx.x] = threadIdx.x * (i + 1);
        int turns = i + blockIdx.x;
        __syncthreads();
        value += held[15 - threadIdx.x] + turns;
        __syncthreads();
        held[threadIdx.x] = value;
    }
    int value = in[blockIdx.x * blockDim.x + threadIdx.x], turns = 3;
#ifdef NOTHING
    value = 0;
#elif defined(__CUDACC__) || 1
    { int kept = value; value += 2 * kept; }
#endif
    for (int i = 0; i < turns; ++i) {
        __syncthreads();
        held[threadIdx.x] += held[threadIdx.x] + value++;
        __syncthreads();
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = value + held[threadIdx.x ^ 1];
}
