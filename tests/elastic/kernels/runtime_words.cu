// Names of the file that begin like those of CUDA's runtime.
// launch runtime_words grid=5 block=16 y=float32[80]:zero x=float32[80]
__constant__ float cudaScale[1] = {3.0f};
typedef float cudaNumber;
struct cudaPair { cudaNumber a, b; };
__device__ float cudaSum(const cudaPair &pair) { return pair.a + pair.b; }

__global__ void runtime_words(float *y, const float *x) {
    cudaNumber cudaCopy[2];
    const unsigned int at = blockIdx.x * blockDim.x + threadIdx.x;
    cudaCopy[0] = x[at] * cudaScale[0];
    cudaCopy[1] = 1.0f;
    y[at] = cudaSum(cudaPair{cudaCopy[0], cudaCopy[1]});
}
