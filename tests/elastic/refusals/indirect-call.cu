__global__ void apply(float *x, float (*f)(float)) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = f(x[i]);
}
