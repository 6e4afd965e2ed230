// The form of first would stand behind the second rounded(), and call that one.
__device__ int rounded(long value) { return value & ~3; }
#define KERNEL                                                                                           \
    __global__ void first(int *x) { x[blockIdx.x * blockDim.x + threadIdx.x] = rounded(7); }              \
    __device__ int rounded(int value) { return value | 3; }
KERNEL
