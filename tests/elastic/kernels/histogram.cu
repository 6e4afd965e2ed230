// launch histogram grid=5 block=64 counts=uint32[16]:zero in=uint8[900] n=int32:900
__global__ void histogram(unsigned int *counts, const unsigned char *in, int n) {
    __shared__ unsigned int mine[16];
    if (threadIdx.x < 16) mine[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
        atomicAdd(&mine[in[i] & 15], 1u);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
}
