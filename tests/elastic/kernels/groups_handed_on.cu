// Groups that are handed to functions: by reference, by value, as what any of them is, and as a template's type.
// launch totals grid=3 block=64 out=float32[192]:zero in=float32[180] n=int32:180
// launch of_any_group grid=3 block=64 out=int32[384]:zero
// launch of_any_type grid=2,2 block=8,8 out=int32[256]:zero in=int32[256]
// launch by_tiles grid=4 block=40 out=int32[160]:zero in=int32[160]
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

template <typename T>
__device__ void total(T *part, cg::thread_block &cta, const cg::thread_block_tile<32> &warp, T v) {
    for (int by = warp.size() / 2; by > 0; by /= 2) v += warp.shfl_down(v, by);
    if (warp.thread_rank() == 0) part[warp.meta_group_rank()] = v;
    cg::sync(cta);
    if (cta.thread_rank() == 0) part[0] += part[1];
    cg::sync(cta);
}

__global__ void totals(float *out, const float *in, int n) {
    __shared__ float part[2];
    cg::thread_block cta = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(cta);
    int i = cta.group_index().x * cta.size() + cta.thread_rank();
    total(part, cta, warp, i < n ? in[i] : 0.0f);
    auto eight = cg::tiled_partition<8>(warp);
    out[i] = part[0] + cg::reduce(eight, in[i % n], cg::plus<float>()) * eight.meta_group_rank();
}

__device__ int sum(cg::thread_group group, int *part, int v) {
    int rank = group.thread_rank();
    for (int i = group.size() / 2; i > 0; i /= 2) {
        part[rank] = v;
        group.sync();
        if (rank < i) v += part[rank + i];
        group.sync();
    }
    return rank == 0 ? v : -1;
}

__global__ void of_any_group(int *out) {
    __shared__ int part[64];
    cg::thread_block block = cg::this_thread_block();
    int i = blockIdx.x * 64 + threadIdx.x;
    out[i] = sum(block, part, i);
    block.sync();
    cg::thread_group tile = cg::tiled_partition(block, 16);
    out[192 + i] = sum(tile, part + threadIdx.x / 16 * 16, i);
    block.sync();
}

__device__ int place(cg::thread_block cta) {
    return cta.group_index().y * gridDim.x + cta.group_index().x;
}

template <typename Group>
__device__ int turned(const Group &group, int v) {
    return group.shfl(v, group.size() - 1 - group.thread_rank());
}

__global__ void of_any_type(int *out, const int *in) {
    auto cta = cg::this_thread_block();
    auto four = cg::tiled_partition<4>(cta);
    auto sixteen = cg::tiled_partition<16>(cta);
    int at = place(cta) * cta.num_threads() + cta.thread_rank();
    out[at] = turned(four, in[at]) * 1000 + turned(sixteen, in[at]);
}

__device__ int total_of_tile(cg::thread_group tile, int *held, int v) {
    held[threadIdx.x] = v;
    cg::sync(tile);
    int sum = 0;
    for (int i = 0; i < tile.size(); ++i) sum += held[i];
    return sum;
}

__global__ void by_tiles(int *out, const int *in) {
    __shared__ int held[64];
    cg::thread_block cta = cg::this_thread_block();
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = in[i];
    auto tile = cg::tiled_partition<8>(cta);
    cg::thread_group first = cg::tiled_partition(cta, 16);
    if (threadIdx.x < 24) v += tile.shfl_down(v, 1);
    if (tile.meta_group_rank() == 4) v -= tile.shfl(v, 7);
    if (cta.thread_rank() < 16) v += total_of_tile(first, held, v);
    out[i] = v;
}
