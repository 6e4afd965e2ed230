/* Softmax of a vector, in one block: the largest value, the sum of exponentials of what lies below it, the shares.

   grid: (1); block: (256). */
// launch softmax grid=1 block=256 input=float32[300] output=float32[300]:zero count=int32:300
extern "C" __global__ void softmax(const float *input, float *output, int count)
{
    __shared__ float largest[256];
    __shared__ float total[256];
    int thread = threadIdx.x;
    float own_largest = input[0];
    for (int i = thread; i < count; i += 256) {
        own_largest = fmaxf(own_largest, input[i]);
    }
    largest[thread] = own_largest;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (thread < half) {
            largest[thread] = fmaxf(largest[thread], largest[thread + half]);
        }
        __syncthreads();
    }
    float own_total = 0.0f;
    for (int i = thread; i < count; i += 256) {
        own_total += expf(input[i] - largest[0]);
    }
    total[thread] = own_total;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (thread < half) {
            total[thread] += total[thread + half];
        }
        __syncthreads();
    }
    for (int i = thread; i < count; i += 256) {
        output[i] = expf(input[i] - largest[0]) / total[0];
    }
}
