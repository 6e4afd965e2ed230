__global__ void count(int *x) {
    static int seen = 0;
    x[blockIdx.x] = atomicAdd(&seen, 1);
}
