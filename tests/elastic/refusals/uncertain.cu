__global__ void turn(float *x, int n) {
    __shared__ float s[64];
    int t = threadIdx.x, step = 0;
    while (step < n) {
        int at = step++;
        at += t;
        s[t] = x[at];
        __syncthreads();
        x[at] = s[63 - t];
        __syncthreads();
    }
}
