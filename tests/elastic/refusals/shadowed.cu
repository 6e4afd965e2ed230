__global__ void turn(float *x) {
    __shared__ float s[64];
    float mine = x[threadIdx.x];
    s[threadIdx.x] = mine;
    __syncthreads();
    {
        float mine = s[63 - threadIdx.x];
        __syncthreads();
        x[threadIdx.x] = mine;
    }
    x[threadIdx.x] += mine;
}
