// Tiles that are parts of a warp, and tiles of tiles.
// launch small_tiles grid=3 block=64 out=int32[192]:zero in=int32[192]
// launch halves grid=2 block=16,4 out=int32[128]:zero in=int32[128]
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

#define PER_TILE 8

__global__ void small_tiles(int *out, const int *in) {
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<PER_TILE>(block);
    cg::thread_block_tile<2> pair = cg::tiled_partition<2>(tile);
    auto one = cg::tiled_partition<1>(block);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = in[i];
    for (int by = tile.size() / 2; by > 0; by /= 2) v += tile.shfl_down(v, by);
    v += pair.shfl_xor(in[i], 1) + pair.meta_group_rank() * 10 + pair.meta_group_size();
    v += tile.ballot(in[i] > 0) + tile.any(in[i] > 90) + 2 * tile.all(in[i] > -90);
    v += tile.shfl_up(v, 3) + tile.meta_group_rank() + one.shfl(v, 0) + one.thread_rank();
    tile.sync();
    out[i] = v;
}

__global__ void halves(int *out, const int *in) {
    __shared__ int held[64];
    auto block = cg::this_thread_block();
    cg::thread_block_tile<16, cg::thread_block> half = cg::tiled_partition<16>(block);
    int i = blockIdx.x * block.size() + block.thread_rank();
    held[block.thread_rank()] = half.shfl(in[i], half.thread_rank() / 2);
    cg::sync(half);
    int next = held[half.meta_group_rank() * 16 + (half.thread_rank() + 1) % 16];
    block.sync();
    out[i] = next + held[block.size() - 1 - block.thread_rank()];
}
