// The largest float by compare and swap: the same in any order.
// launch float_maximum grid=4 block=32 largest=float32[1]:zero in=float32[128]
__device__ void raise(float *address, float value) {
    int *bits = (int *)address;
    int seen = *bits;
    while (__int_as_float(seen) < value) {
        int before = atomicCAS(bits, seen, __float_as_int(value));
        if (before == seen) break;
        seen = before;
    }
}
__global__ void float_maximum(float *largest, const float *in) {
    raise(largest, in[blockIdx.x * blockDim.x + threadIdx.x]);
}
