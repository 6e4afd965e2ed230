__global__ void turn(float *x, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    n > 0 ? __syncthreads() : (void)0;
    x[t] = s[63 - t];
}
