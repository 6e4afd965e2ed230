// A template for which there are specialisations only: dynamic shared memory with a name for each type.
// launch turned<float> grid=5 block=16 shared=64 x=float32[80]
// launch turned<int> grid=4 block=16 shared=64 x=int32[64]
template <class T> struct Shared {
    __device__ T *get() {
        extern __device__ void error(void);
        error();
        return 0;
    }
};
template <> struct Shared<int> {
    __device__ int *get() { extern __shared__ int ints[]; return ints; }
};
template <> struct Shared<float> {
    __device__ float *get() { extern __shared__ float floats[]; return floats; }
};

template <typename T> __global__ void turned(T *x) {
    Shared<T> shared;
    T *s = shared.get();
    s[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    x[blockIdx.x * blockDim.x + threadIdx.x] = s[blockDim.x - 1 - threadIdx.x] * T(blockIdx.x + 1);
}
