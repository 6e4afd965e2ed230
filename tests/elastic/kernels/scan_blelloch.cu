// Up and down a tree: few threads work at its top, all meet at each level.
// launch scan_blelloch grid=3 block=32 out=int32[192]:zero in=int32[192]
__global__ void scan_blelloch(int *out, const int *in) {
    __shared__ int tree[64];
    const int t = threadIdx.x;
    const int base = blockIdx.x * 64;
    int offset = 1;
    tree[2 * t] = in[base + 2 * t];
    tree[2 * t + 1] = in[base + 2 * t + 1];
    for (int d = 32; d > 0; d >>= 1) {
        __syncthreads();
        if (t < d) {
            const int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1;
            tree[b] += tree[a];
        }
        offset *= 2;
    }
    if (t == 0) tree[63] = 0;
    for (int d = 1; d < 64; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (t < d) {
            const int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1;
            const int kept = tree[a];
            tree[a] = tree[b];
            tree[b] += kept;
        }
    }
    __syncthreads();
    out[base + 2 * t] = tree[2 * t];
    out[base + 2 * t + 1] = tree[2 * t + 1];
}
