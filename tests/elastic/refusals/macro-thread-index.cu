#ifndef LANE
#define LANE (threadIdx.x & 31)
#endif

__global__ void lanes(int *x) {
    x[blockIdx.x * blockDim.x + threadIdx.x] = LANE;
}
