#ifndef TOGETHER
#define TOGETHER __syncthreads()
#endif

__global__ void turn(float *x) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    TOGETHER;
    x[threadIdx.x] = s[63 - threadIdx.x];
}
