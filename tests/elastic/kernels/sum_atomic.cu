// Adds floats atomically: compared with a tolerance.
// launch sum_atomic grid=8 block=32 total=float32[1]:zero in=float32[256]
__global__ void sum_atomic(float *total, const float *in) {
    atomicAdd(total, in[blockIdx.x * blockDim.x + threadIdx.x]);
}
