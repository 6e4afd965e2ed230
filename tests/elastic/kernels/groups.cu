// Cooperative groups of a block and of its warps.
// launch groups grid=4 block=128 out=float32[4]:zero in=float32[500] n=int32:500
// launch ranks grid=3,2 block=8,4 out=int32[192]:zero
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__device__ unsigned int rank_in_block() {
    return cg::this_thread_block().thread_rank();
}

__global__ void groups(float *out, const float *in, int n) {
    __shared__ float part[4];
    auto block = cg::this_thread_block();
    int i = block.group_index().x * block.size() + block.thread_rank();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    float sum = i < n ? in[i] : 0.0f;
    for (int by = warp.size() / 2; by > 0; by /= 2) {
        sum += warp.shfl_down(sum, by);
    }
    if (warp.thread_rank() == 0) part[rank_in_block() / warp.size()] = sum;
    cg::sync(block);
    if (block.thread_rank() == 0) out[block.group_index().x] = (part[0] + part[1]) + (part[2] + part[3]);
}

__global__ void ranks(int *out) {
    __shared__ int before[32];
    cg::thread_block block = cg::this_thread_block();
    unsigned int rank = block.thread_rank();
    before[rank] = block.thread_index().y * 100 + block.thread_index().x;
    block.sync();
    int at = (blockIdx.y * gridDim.x + blockIdx.x) * block.size() + rank;
    out[at] = before[block.size() - 1 - rank] + block.group_index().y;
}
