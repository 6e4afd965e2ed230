// The grid as a group that waits for nothing.
// launch by_rank grid=3,2 block=8,4 out=int32[200]:zero in=int32[200] n=int32:200
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void by_rank(int *out, const int *in, int n) {
    cg::grid_group grid = cg::this_grid();
    for (unsigned int i = grid.thread_rank(); i < n; i += grid.size()) {
        out[i] = in[i] + 1000 * (int)grid.block_rank() + (int)(grid.group_dim().x * grid.num_blocks());
    }
}
