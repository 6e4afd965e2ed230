#ifndef FOR_EACH
#define FOR_EACH(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)
#endif

__global__ void twice(float *x, int n) {
    FOR_EACH(i, n) x[i] *= 2.0f;
}
