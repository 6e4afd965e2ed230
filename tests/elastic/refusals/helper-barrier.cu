__device__ float turned(float *s, int t) {
    __syncthreads();
    return s[63 - t];
}

__global__ void turn(float *x) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = turned(s, threadIdx.x);
}
