/* The mean of each channel.

   grid: (channels); block: (64). */
// launch global_average_pool grid=6 block=64 input=float32[6x9x9] output=float32[6]:zero pixels=int32:81
extern "C" __global__ void global_average_pool(const float *input, float *output, int pixels)
{
    __shared__ float partial[64];
    int thread = threadIdx.x;
    int channel = blockIdx.x;
    float sum = 0.0f;
    for (int i = thread; i < pixels; i += 64) {
        sum += input[channel * pixels + i];
    }
    partial[thread] = sum;
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (thread < half) {
            partial[thread] += partial[thread + half];
        }
        __syncthreads();
    }
    if (thread == 0) {
        output[channel] = partial[0] / pixels;
    }
}
