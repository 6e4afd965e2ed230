/* One step of a long short-term memory, all four gates of it: every block computes one unit.

     i, f, g, o = weights of input and hidden state, in this order, units rows each (as PyTorch has them)
     cell   = sigmoid(f) * cell + sigmoid(i) * tanh(g)
     hidden = sigmoid(o) * tanh(cell)

   At step 0 there is no state yet, and none is read. Hidden states alternate between two buffers, because every block
   reads all of the last one.

   grid: (units); block: (256). */
// launch lstm_cell grid=6 block=256 sequence=float32[2x8] input_weights=float32[24x8] hidden_weights=float32[24x6] bias=float32[24] last_hidden=float32[6] hidden=float32[6]:zero cell=float32[6] inputs=int32:8 units=int32:6 step=int32:1
extern "C" __global__ void lstm_cell(const float *sequence, const float *input_weights, const float *hidden_weights,
                                     const float *bias, const float *last_hidden, float *hidden, float *cell,
                                     int inputs, int units, int step)
{
    __shared__ float partial[4][256];
    int thread = threadIdx.x;
    int unit = blockIdx.x;
    for (int gate = 0; gate < 4; gate++) {
        int row = gate * units + unit;
        float sum = 0.0f;
        for (int i = thread; i < inputs; i += 256) {
            sum += input_weights[row * inputs + i] * sequence[step * inputs + i];
        }
        if (step > 0) {
            for (int i = thread; i < units; i += 256) {
                sum += hidden_weights[row * units + i] * last_hidden[i];
            }
        }
        partial[gate][thread] = sum;
    }
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (thread < half) {
            for (int gate = 0; gate < 4; gate++) {
                partial[gate][thread] += partial[gate][thread + half];
            }
        }
        __syncthreads();
    }
    if (thread == 0) {
        float in_gate = 1.0f / (1.0f + expf(-(partial[0][0] + bias[unit])));
        float forget_gate = 1.0f / (1.0f + expf(-(partial[1][0] + bias[units + unit])));
        float candidate = tanhf(partial[2][0] + bias[2 * units + unit]);
        float out_gate = 1.0f / (1.0f + expf(-(partial[3][0] + bias[3 * units + unit])));
        float state = in_gate * candidate;
        if (step > 0) {
            state += forget_gate * cell[unit];
        }
        cell[unit] = state;
        hidden[unit] = out_gate * tanhf(state);
    }
}
