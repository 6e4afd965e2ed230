#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void tiles(float *x) {
    cg::thread_block block = cg::this_thread_block();
    x[block.thread_rank()] = 0.0f;
}
