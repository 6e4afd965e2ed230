// Weights in constant memory, a grid of three dimensions.
// launch convolution_direct grid=3,2,4 block=8,4 out=float32[4x8x20]:zero in=float32[2x10x22] height=int32:8 width=int32:20
__constant__ float weights[9] = {0.1f, -0.2f, 0.3f, 0.4f, 0.5f, -0.6f, 0.7f, 0.8f, 0.9f};
__global__ void convolution_direct(float *out, const float *in, int height, int width) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z;
    if (x < width && y < height) {
        float sum = 0.01f * z;
        for (int channel = 0; channel < 2; ++channel)
            for (int dy = 0; dy < 3; ++dy)
                for (int dx = 0; dx < 3; ++dx)
                    sum += weights[dy * 3 + dx] * in[(channel * (height + 2) + y + dy) * (width + 2) + x + dx];
        out[(z * height + y) * width + x] = sum;
    }
}
