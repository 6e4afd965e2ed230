// A product of matrices in which each thread keeps a square of sums of its own across all barriers.
// launch register_blocked grid=2,2 block=4,4 c=float32[16x16]:zero a=float32[16x12] b=float32[12x16] n=int32:16 k=int32:12
constexpr int PER = 2, EDGE = 8;
__global__ void register_blocked(float *c, const float *a, const float *b, int n, int k) {
    constexpr int depth = 4;
    __shared__ float left[EDGE][depth], right[depth][EDGE];
    float sums[PER][PER] = {};
    const int t = threadIdx.y * blockDim.x + threadIdx.x;
    a += blockIdx.y * EDGE * k;
    b += blockIdx.x * EDGE;
    for (int start = 0; start < k; start += depth, a += depth, b += depth * n) {
        for (int i = t; i < EDGE * depth; i += 16) {
            left[i / depth][i % depth] = a[i / depth * k + i % depth];
            right[i / EDGE][i % EDGE] = b[i / EDGE * n + i % EDGE];
        }
        __syncthreads();
        float column[PER], row[PER];
        for (int d = 0; d < depth; ++d) {
            for (int i = 0; i < PER; ++i) {
                column[i] = left[threadIdx.y * PER + i][d];
                row[i] = right[d][threadIdx.x * PER + i];
            }
            for (int i = 0; i < PER; ++i)
                for (int j = 0; j < PER; ++j) sums[i][j] += column[i] * row[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < PER; ++i)
        for (int j = 0; j < PER; ++j)
            c[(blockIdx.y * EDGE + threadIdx.y * PER + i) * n + blockIdx.x * EDGE + threadIdx.x * PER + j] = sums[i][j];
}
