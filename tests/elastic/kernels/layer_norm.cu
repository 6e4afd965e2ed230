// A row for each warp, several warps to a block; sums by shuffles that all lanes take away.
// launch layer_norm grid=3 block=32,4 out=float32[11x40]:zero in=float32[11x40] rows=int32:11 columns=int32:40
__device__ float everywhere(float value) {
    for (int mask = 16; mask; mask /= 2) value += __shfl_xor_sync(0xffffffff, value, mask, 32);
    return value;
}
__global__ void layer_norm(float *out, const float *in, int rows, int columns) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    float sum = 0.0f, squares = 0.0f;
    for (int i = threadIdx.x; i < columns; i += warpSize) {
        float value = in[row * columns + i];
        sum += value;
        squares += value * value;
    }
    sum = everywhere(sum);
    squares = everywhere(squares);
    float mean = sum / columns, scale = rsqrtf(squares / columns - mean * mean + 1e-5f);
    for (int i = threadIdx.x; i < columns; i += warpSize)
        out[row * columns + i] = (in[row * columns + i] - mean) * scale;
}
