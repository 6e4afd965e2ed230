__device__ void turn(float *s, float *x) {
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[0];
}

__global__ void some(float *x, int n) {
    __shared__ float s[64];
    if (threadIdx.x < n) {
        turn(s, x);
    }
}
