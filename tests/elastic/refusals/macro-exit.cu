#ifndef ENOUGH
#define ENOUGH(x) if ((x) > 9) break
#endif
__global__ void turn(float *x) {
    __shared__ float s[64];
    int t = threadIdx.x;
    for (int i = 0; i < t; ++i) {
        ENOUGH(i);
        x[t] += 1.0f;
    }
    s[t] = x[t];
    __syncthreads();
    x[t] = s[63 - t];
}
