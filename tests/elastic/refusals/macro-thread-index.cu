#define LANE (threadIdx.x & 31)

__global__ void lanes(int *x) {
    x[blockIdx.x * blockDim.x + threadIdx.x] = LANE;
}
