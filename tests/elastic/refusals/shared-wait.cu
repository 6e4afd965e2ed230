__global__ void serve(float *out, int n) {
    __shared__ int served;
    if (threadIdx.x == 0) {
        served = 0;
    }
    __syncthreads();
    while (served < n) {
        atomicAdd(&served, 1);
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f;
}
