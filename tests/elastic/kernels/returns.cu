// Threads return before barriers of others: in reductions, votes, on ways of their own, in loops.
// launch reduced grid=5 block=64 a=int32[320] out=int32[5]:zero n=int32:300
__global__ void reduced(const int *a, int *out, int n) {
    __shared__ int held[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (i >= n) return;
    held[t] = a[i];
    for (int by = 32; by > 0; by /= 2) {
        __syncthreads();
        if (t < by && i + by < n) held[t] += held[t + by];
    }
    if (t == 0) out[blockIdx.x] = held[0];
}
// launch votes grid=4 block=64 a=int32[256]:0..40 out=int32[256]:zero n=int32:230
__global__ void votes(const int *a, int *out, int n) {
    int i = blockIdx.x * 64 + threadIdx.x, v = a[i], sum = 0;
    if (i >= n || v == 3) return;
    for (int round = 0; round < 5; round++) {
        sum += __syncthreads_count(v > round * 8);
        if (__syncthreads_or(v == 39 - round)) sum += 1000;
        if (__syncthreads_and(v > 1)) sum += 100000;
        if (v % 7 == round) { out[i] = -sum; return; }
    }
    out[i] = sum;
}
// launch ways grid=4 block=64 a=int32[256]:0..9 out=int32[256]:zero n=int32:250
__global__ void ways(const int *a, int *out, int n) {
    __shared__ int held[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    held[t] = a[i];
    if (i >= n) { out[i] = 7; return; }
    __syncthreads();
    int v = held[63 - t];
    if (v > 6) {
        for (int k = 0; k < v; k++) out[i] += k * a[i];
        return;
    }
    if (a[blockIdx.x * 64] > 4) {
        __syncthreads();
        held[t] = v * 3;
        __syncthreads();
        v = held[(t + 1) % 64];
    }
    if (v == 2) return;
    __syncthreads();
    out[i] = v + held[0];
}
// launch until grid=4 block=64 a=int32[256]:0..9 out=int32[256]:zero n=int32:250
__global__ void until(const int *a, int *out, int n) {
    __shared__ int held[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t, own = held[t] = i < n ? a[i] : 0;
    while (own < 20) {
        __syncthreads();
        int left = t ? held[t - 1] : 1;
        __syncthreads();
        held[t] = own += left + 1;
    }
    out[i] = own;
}
