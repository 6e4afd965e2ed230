__global__ void count(int *out, const int *x) {
    int total = __syncthreads_count(x[blockIdx.x * blockDim.x + threadIdx.x] > 0);
    if (threadIdx.x == 0) {
        out[blockIdx.x] = total;
    }
}
