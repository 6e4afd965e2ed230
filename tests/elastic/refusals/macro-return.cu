#ifndef UNLESS
#define UNLESS(condition) if (!(condition)) return
#endif

__global__ void scale(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    UNLESS(i < n);
    x[i] *= 2.0f;
}
