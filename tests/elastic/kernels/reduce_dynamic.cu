// launch reduce_dynamic grid=7 block=64 shared=256 out=float32[7]:zero in=float32[430] n=int32:430
extern __shared__ float partial[];
__global__ void reduce_dynamic(float *out, const float *in, int n) {
    unsigned int t = threadIdx.x;
    unsigned int i = blockIdx.x * blockDim.x + t;
    partial[t] = i < n ? in[i] : 0.0f;
    __syncthreads();
    for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
        if (t < s) partial[t] += partial[t + s];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = partial[0];
}
