__global__ void turn(float *x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
#ifdef TWICE
    s[t] += 1.0f;
    __syncthreads();
#endif
    x[t] = s[63 - t];
}
