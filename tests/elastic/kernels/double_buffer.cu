// Two buffers of shared memory change places in a loop; locals declared inside it live across its barrier.
// launch double_buffer grid=4 block=32 out=float32[128]:zero in=float32[640] steps=int32:5
__global__ void double_buffer(float *out, const float *in, int steps) {
    __shared__ float held[2][32];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int total = gridDim.x * blockDim.x;
    float sum = 0.0f;
    for (int step = 0; step < steps; ++step) {
        const int which = step & 1;
        float fresh = in[step * total + i];
        held[which][threadIdx.x] = fresh;
        __syncthreads();
        float opposite = held[which][31 - threadIdx.x];
        sum = sum * 0.5f + (fresh - opposite);
    }
    out[i] = sum;
}
