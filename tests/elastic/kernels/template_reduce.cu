// A template of a type and a number.
// launch reduce<float, 64> grid=4 block=64 out=float32[4]:zero in=float32[200] n=int32:200
// launch reduce<int, 64> grid=3 block=64 out=int32[3]:zero in=int32[150] n=int32:150
// launch reduce<int> grid=3 block=32 out=int32[3]:zero in=int32[90] n=int32:90
template <typename T>
__device__ T twice(T value) {
    return value + T(value);
}
template <typename T, unsigned int threads = 32>
__global__ void reduce(T *out, const T *in, int n) {
    __shared__ T sums[threads];
    unsigned int t = threadIdx.x, i = blockIdx.x * threads + t;
    sums[t] = i < n ? twice<T>(in[i]) : T(0);
    __syncthreads();
    if (threads >= 64) {
        if (t < 32) sums[t] += sums[t + 32];
        __syncthreads();
    }
    for (unsigned int by = 16; by > 0; by >>= 1) {
        if (t < by) sums[t] += sums[t + by];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = sums[0];
}
