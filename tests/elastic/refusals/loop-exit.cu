__global__ void scan(float *x, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    for (int step = 1; step < n; step *= 2) {
        if (t + step > n) {
            break;
        }
        __syncthreads();
        s[t] += 1.0f;
    }
    x[t] = s[t];
}
