// A helper that holds a barrier itself.
// launch helper_barrier grid=4 block=32 out=int32[128]:zero in=int32[128]
__device__ int from_neighbour(int *held, int value) {
    held[threadIdx.x] = value;
    __syncthreads();
    int other = held[(threadIdx.x + 1) % blockDim.x];
    __syncthreads();
    return other;
}
__global__ void helper_barrier(int *out, const int *in) {
    __shared__ int held[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int once = from_neighbour(held, in[i]);
    out[i] = from_neighbour(held, once) * 2 + once;
}
