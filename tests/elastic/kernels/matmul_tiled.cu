// launch matmul_tiled grid=4,3 block=8,8 c=float32[24x30]:zero a=float32[24x20] b=float32[20x30] m=int32:24 n=int32:30 k=int32:20
#define TILE 8
__global__ void matmul_tiled(float *c, const float *a, const float *b, int m, int n, int k) {
    __shared__ float left[TILE][TILE];
    __shared__ float right[TILE][TILE + 1];
    int row = blockIdx.y * TILE + threadIdx.y;
    int column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int start = 0; start < k; start += TILE) {
        int i = start + threadIdx.x, j = start + threadIdx.y;
        left[threadIdx.y][threadIdx.x] = row < m && i < k ? a[row * k + i] : 0.0f;
        right[threadIdx.y][threadIdx.x] = j < k && column < n ? b[j * n + column] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int t = 0; t < TILE; ++t) sum += left[threadIdx.y][t] * right[t][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}
