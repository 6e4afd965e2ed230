template <typename T>
__global__ void scale(T *x, T factor) {
    x[blockIdx.x * blockDim.x + threadIdx.x] *= factor;
}
