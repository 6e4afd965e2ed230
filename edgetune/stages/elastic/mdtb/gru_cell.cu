/* One step of a gated recurrent unit, all three gates of it: every block computes one unit.

     r, z, n = weights of input and hidden state, in this order, units rows each (as PyTorch has them)
     n      = tanh(n of input + sigmoid(r) * n of hidden state)
     hidden = (1 - sigmoid(z)) * n + sigmoid(z) * hidden

   At step 0 there is no state yet, and none is read. Hidden states alternate between two buffers, because every block
   reads all of the last one.

   grid: (units); block: (256). */
// launch gru_cell grid=6 block=256 sequence=float32[2x8] input_weights=float32[18x8] hidden_weights=float32[18x6] input_bias=float32[18] hidden_bias=float32[18] last_hidden=float32[6] hidden=float32[6]:zero inputs=int32:8 units=int32:6 step=int32:1
extern "C" __global__ void gru_cell(const float *sequence, const float *input_weights, const float *hidden_weights,
                                    const float *input_bias, const float *hidden_bias, const float *last_hidden,
                                    float *hidden, int inputs, int units, int step)
{
    __shared__ float of_input[3][256];
    __shared__ float of_hidden[3][256];
    int thread = threadIdx.x;
    int unit = blockIdx.x;
    for (int gate = 0; gate < 3; gate++) {
        int row = gate * units + unit;
        float input_sum = 0.0f;
        for (int i = thread; i < inputs; i += 256) {
            input_sum += input_weights[row * inputs + i] * sequence[step * inputs + i];
        }
        float hidden_sum = 0.0f;
        if (step > 0) {
            for (int i = thread; i < units; i += 256) {
                hidden_sum += hidden_weights[row * units + i] * last_hidden[i];
            }
        }
        of_input[gate][thread] = input_sum;
        of_hidden[gate][thread] = hidden_sum;
    }
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (thread < half) {
            for (int gate = 0; gate < 3; gate++) {
                of_input[gate][thread] += of_input[gate][thread + half];
                of_hidden[gate][thread] += of_hidden[gate][thread + half];
            }
        }
        __syncthreads();
    }
    if (thread == 0) {
        float input_reset = of_input[0][0] + input_bias[unit];
        float input_update = of_input[1][0] + input_bias[units + unit];
        float input_new = of_input[2][0] + input_bias[2 * units + unit];
        float hidden_reset = of_hidden[0][0] + hidden_bias[unit];
        float hidden_update = of_hidden[1][0] + hidden_bias[units + unit];
        float hidden_new = of_hidden[2][0] + hidden_bias[2 * units + unit];
        float reset = 1.0f / (1.0f + expf(-(input_reset + hidden_reset)));
        float update = 1.0f / (1.0f + expf(-(input_update + hidden_update)));
        float state = (1.0f - update) * tanhf(input_new + reset * hidden_new);
        if (step > 0) {
            state += update * last_hidden[unit];
        }
        hidden[unit] = state;
    }
}
