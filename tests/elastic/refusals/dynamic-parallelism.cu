__global__ void leaf(float *x) {
    x[threadIdx.x] += 1.0f;
}

__global__ void tree(float *x) {
    if (threadIdx.x == 0) {
        leaf<<<1, 32>>>(x + 32 * blockIdx.x);
    }
}
