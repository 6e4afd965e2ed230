// launch lstm_cell grid=3 block=32 h=float32[90]:zero c=float32[90] gates=float32[360] units=int32:90
__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + __expf(-x)); }
__global__ void lstm_cell(float *h, float *c, const float *gates, int units) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < units) {
        float in = sigmoid(gates[i]), forget = sigmoid(gates[units + i]);
        float fresh = tanhf(gates[2 * units + i]), out = sigmoid(gates[3 * units + i]);
        c[i] = forget * c[i] + in * fresh;
        h[i] = out * tanhf(c[i]);
    }
}
