// launch matmul_naive grid=4,3 block=8,8 c=float32[24x30]:zero a=float32[24x17] b=float32[17x30] m=int32:24 n=int32:30 k=int32:17
__global__ void matmul_naive(float *c, const float *a, const float *b, int m, int n, int k) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}
