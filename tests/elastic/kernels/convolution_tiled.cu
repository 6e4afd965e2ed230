// A tile with a halo: threads load a different number of elements each.
// launch convolution_tiled grid=3,2 block=8,8 out=float32[13x20]:zero in=float32[13x20] filter=float32[5] height=int32:13 width=int32:20
__global__ void convolution_tiled(float *out, const float *in, const float *filter, int height, int width) {
    __shared__ float tile[8][12];
    const int y = blockIdx.y * 8 + threadIdx.y;
    for (int x = threadIdx.x; x < 12; x += 8) {
        const int from = static_cast<int>(blockIdx.x) * 8 + x - 2;
        tile[threadIdx.y][x] = y < height && from >= 0 && from < width ? in[y * width + from] : 0.0f;
    }
    __syncthreads();
    const int x = blockIdx.x * 8 + threadIdx.x;
    if (y >= height || x >= width) return;
    float sum = 0.0f;
    for (int i = 0; i < 5; ++i) sum += filter[i] * tile[threadIdx.y][threadIdx.x + i];
    out[y * width + x] = sum;
}
