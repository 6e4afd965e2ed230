__global__ void turn(float *x, int n) {
    __shared__ float s[64];
    if (threadIdx.x >= n) {
        return;
    }
    auto mine = x[threadIdx.x];
    s[threadIdx.x] = mine;
    __syncthreads();
    x[threadIdx.x] = s[63 - threadIdx.x] - mine;
}
