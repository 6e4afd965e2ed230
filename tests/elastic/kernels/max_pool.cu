// launch max_pool grid=2,2,3 block=8,4 out=float32[3x7x9]:zero in=float32[3x15x19] height=int32:15 width=int32:19
__global__ void max_pool(float *out, const float *in, int height, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int columns = (width - 1) / 2, rows = (height - 1) / 2;
    if (x >= columns || y >= rows) return;
    const float *corner = in + (blockIdx.z * height + 2 * y) * width + 2 * x;
    float largest = corner[0];
    for (int dy = 0; dy < 3; dy++)
        for (int dx = 0; dx < 3; dx++) largest = max(largest, corner[dy * width + dx]);
    out[(blockIdx.z * rows + y) * columns + x] = largest;
}
