// Sums along y in a block of two dimensions; the barriers are in a branch that all threads take together.
// launch columns grid=3 block=16,4 out=float32[48]:zero in=float32[20x48] rows=int32:20 width=int32:48 mean=int32:1
// launch columns grid=3 block=16,4 out=float32[48]:zero in=float32[20x48] rows=int32:20 width=int32:48 mean=int32:0
__global__ void columns(float *out, const float *in, int rows, int width, int mean) {
    __shared__ float held[4][16];
    int x = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int y = threadIdx.y; y < rows; y += blockDim.y) sum += in[y * width + x];
    if (mean) {
        held[threadIdx.y][threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.y == 0) {
            for (int i = 1; i < 4; ++i) sum += held[i][threadIdx.x];
            out[x] = sum / rows;
        }
    } else if (threadIdx.y == 3) {
        out[x] = sum;
    }
}
