// Each thread sorts eight numbers of its own; its array lives across a barrier.
// launch private_arrays grid=4 block=32 out=int32[1024]:zero in=int32[1024]
__global__ void private_arrays(int *out, const int *in) {
    __shared__ int smallest[32];
    int own[8];
    int base = (blockIdx.x * blockDim.x + threadIdx.x) * 8;
    for (int i = 0; i < 8; ++i) {
        int value = in[base + i], j = i;
        for (; j > 0 && own[j - 1] > value; --j) own[j] = own[j - 1];
        own[j] = value;
    }
    smallest[threadIdx.x] = own[0];
    __syncthreads();
    int neighbour = smallest[(threadIdx.x + 1) % blockDim.x];
    for (int i = 0; i < 8; ++i) out[base + i] = own[i] - neighbour;
}
