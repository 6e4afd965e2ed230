// Barriers in a loop in a loop.
// launch bitonic grid=4 block=32 data=int32[128]:-500..500
__global__ void bitonic(int *data) {
    __shared__ int held[32];
    int t = threadIdx.x;
    held[t] = data[blockIdx.x * blockDim.x + t];
    __syncthreads();
    for (int size = 2; size <= blockDim.x; size *= 2) {
        for (int by = size / 2; by > 0; by /= 2) {
            int other = t ^ by;
            if (other > t) {
                bool up = (t & size) == 0;
                int a = held[t], b = held[other];
                if ((a > b) == up) {
                    held[t] = b;
                    held[other] = a;
                }
            }
            __syncthreads();
        }
    }
    data[blockIdx.x * blockDim.x + t] = held[t];
}
