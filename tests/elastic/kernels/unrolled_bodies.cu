// Loops whose bodies are loops behind #pragma unroll, with barriers and without; and branches that are such loops.
// launch unrolled_bodies grid=3 block=64 x=float32[192] w=float32[16] n=int32:5
// launch unrolled_bodies grid=3 block=64 x=float32[192] w=float32[16] n=int32:2
__global__ void unrolled_bodies(float *x, const float *w, int n) {
    __shared__ float s[64];
    float sum = 0.0f;
    s[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    for (int k = 0; k < 3; k++)  // rows (outer)
        #pragma unroll 3
        for (int j = 0; j < 3; j++)
#pragma unroll
            for (int m = 0; m < 2; m++) {
                s[threadIdx.x] += w[k * 3 + j] * m;
                __syncthreads();
                sum += s[(threadIdx.x + 1) % 64];
                __syncthreads();
            }
    if (n > 3)
        #pragma unroll 4
        for (int j = 0; j < 8; j++) sum += w[j];
    else
        #pragma unroll (2)
        for (int j = 0; j < 4; j++) sum -= w[j];
    x[blockIdx.x * 64 + threadIdx.x] = sum;
}
