__global__ void scale(float *x) {
    x[blockIdx.x] *= 2.0f;
}

__global__ void scale(double *x) {
    x[blockIdx.x] *= 2.0;
}
