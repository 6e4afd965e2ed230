// Loops that wait for threads of their own block: a count that all raise, and a lock.
// launch raised grid=3,2 block=40 out=int32[240]:zero n=int32:100
// launch locked grid=3 block=33 out=int32[3]:zero in=int32[90] n=int32:90

__global__ void raised(int *out, int n) {
    __shared__ unsigned int hits;
    int at = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) hits = 0;
    __syncthreads();
    unsigned int mine = at + 1;
    while (hits < n) {
        mine ^= mine << 13;
        atomicAdd(&hits, 1);
    }
    __syncthreads();
    out[at] = hits >= n && hits < n + blockDim.x ? at : -1;
}

__global__ void locked(int *out, const int *in, int n) {
    __shared__ int lock, sum;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) {
        lock = 0;
        sum = 0;
    }
    __syncthreads();
    int mine = i < n ? in[i] : 0;
    bool done = false;
    while (!done) {
        if (atomicExch(&lock, 1) == 0) {
            sum += mine;
            __threadfence_block();
            done = true;
            atomicExch(&lock, 0);
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
