// Parameters are variables of their own in every thread.
// launch parameter_mutation grid=6 block=32 out=float32[192]:zero in=float32[800] rounds=int32:4 scale=float32:1.5
__global__ void parameter_mutation(float *out, const float *in, int rounds, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    in += i * 4;
    out += i;
    float sum = 0.0f;
    while (rounds-- > 0) {
        sum += *in++ * scale;
        scale *= 0.5f;
    }
    *out = sum;
}
