// Barriers that count votes.
// launch vote_barriers grid=4 block=32 out=int32[128]:zero in=int32[128]
__global__ void vote_barriers(int *out, const int *in) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int above = __syncthreads_count(in[i] > 50);
    int any = __syncthreads_or(in[i] > 98), all = __syncthreads_and(in[i] < 99);
    out[i] = above * 4 + any * 2 + all;
}
