// Loops with barriers whose counters begin at the thread's own number, yet all threads go round as often.
// launch thread_trips grid=3 block=16 out=int32[48]:zero in=int32[192]
__global__ void thread_trips(int *out, const int *in) {
    __shared__ int held[16];
    int sum = 0;
    for (int i = threadIdx.x; i < 64; i += blockDim.x) {
        held[threadIdx.x] = in[blockIdx.x * 64 + i];
        __syncthreads();
        sum += held[(i + 1) % 16] * (i + 1);
        __syncthreads();
    }
    int left = 3, j = threadIdx.x;
    while (left-- > 0) {
        held[15 - threadIdx.x] = sum + j++;
        __syncthreads();
        sum ^= held[threadIdx.x];
        __syncthreads();
    }
    int rounds = threadIdx.x + 1;
    do {
        held[threadIdx.x] = sum;
        __syncthreads();
        sum += held[0];
        __syncthreads();
        rounds += 2;
    } while (rounds - static_cast<int>(threadIdx.x) < 6);
    out[blockIdx.x * 16 + threadIdx.x] = sum;
}
