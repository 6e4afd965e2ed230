__global__ void sum(float *out, const float *x) {
    __shared__ volatile float s[64];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 64 + t];
    __syncthreads();
    if (t < 32) {
        s[t] += s[t + 32];
        s[t] += s[t + 16];
    }
    if (t == 0) {
        out[blockIdx.x] = s[0];
    }
}
