__device__ int ready(int *flag) {
    return *flag ? 1 : ready(flag);
}

__global__ void scale(float *x, int *flag) {
    if (ready(flag)) x[blockIdx.x] *= 2.0f;
}
