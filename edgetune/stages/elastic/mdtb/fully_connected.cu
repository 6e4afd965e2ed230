/* A fully connected layer for one sample: every block computes one output, the sum over all inputs times its weights.

   grid: (outputs); block: (256). */
// launch fully_connected grid=6 block=256 input=float32[300] weights=float32[6x300] bias=float32[6] output=float32[6]:zero inputs=int32:300 relu=int32:0
extern "C" __global__ void fully_connected(const float *input, const float *weights, const float *bias, float *output,
                                           int inputs, int relu)
{
    __shared__ float partial[256];
    int thread = threadIdx.x;
    int output_index = blockIdx.x;
    float sum = 0.0f;
    for (int i = thread; i < inputs; i += 256) {
        sum += weights[output_index * inputs + i] * input[i];
    }
    partial[thread] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (thread < half) {
            partial[thread] += partial[thread + half];
        }
        __syncthreads();
    }
    if (thread == 0) {
        float value = partial[0] + bias[output_index];
        if (relu && value < 0.0f) {
            value = 0.0f;
        }
        output[output_index] = value;
    }
}
