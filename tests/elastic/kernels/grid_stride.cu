// Each thread goes on by the size of the whole grid: the logical one, whatever the physical one is.
// launch grid_stride grid=5 block=32 out=float32[1000]:zero in=float32[1000] n=int32:1000
extern "C" __global__ void grid_stride(float *out, const float *__restrict__ in, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        if (in[i] < -0.5f) continue;
        out[i] = sqrtf(fabsf(in[i])) + static_cast<float>(gridDim.x);
    }
}
