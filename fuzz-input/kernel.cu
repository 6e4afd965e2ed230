// Two kernels to make elastic: edgetune schedule kernels transform examples/tiled.cu --explain --check
#define TILE 16

// launch scale grid=6 block=256 x=float32[1500] y=float32[1500] factor=float32:3 n=int32:1500
extern "C" __global__ void scale(const float *x, float *y, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = factor * x[i];
}

// launch tiled grid=4,4 block=16,16 a=float32[4096] b=float32[4096] c=float32[4096] n=int32:64
extern "C" __global__ void tiled(const float *a, const float *b, float *c, int n) {
    __shared__ float left[TILE][TILE];
    __shared__ float right[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y;
    int column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int tile = 0; tile < n / TILE; tile++) {
        left[threadIdx.y][threadIdx.x] = a[row * n + tile * TILE + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = b[(tile * TILE + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < TILE; k++) sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
