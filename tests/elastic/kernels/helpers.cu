// Helpers that use built-in variables themselves, a template, one that calls another.
// launch helpers grid=3,2 block=8,4 out=float32[192]:zero in=float32[192]
template <class T, int N>
__device__ T power(T x) {
    T result = 1;
    for (int i = 0; i < N; ++i) result *= x;
    return result;
}
__device__ int place() {
    return ((blockIdx.y * gridDim.x + blockIdx.x) * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
static __device__ float read(const float *in) { return __ldg(&in[place()]); }
__global__ void helpers(float *out, const float *in) {
    out[place()] = power<float, 3>(read(in)) - power<int, 2>(threadIdx.x);
}
