/* The sum of two tensors, and zero where that is negative: where a residual block comes together.

   grid: (count / 256), rounded up; block: (256). */
// launch add_relu grid=3 block=256 left=float32[700] right=float32[700] output=float32[700]:zero count=int32:700
extern "C" __global__ void add_relu(const float *left, const float *right, float *output, int count)
{
    int index = blockIdx.x * 256 + threadIdx.x;
    if (index < count) {
        output[index] = fmaxf(left[index] + right[index], 0.0f);
    }
}
