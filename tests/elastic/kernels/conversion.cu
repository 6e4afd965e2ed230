// Shared memory of a template's type through a conversion, and a first warp chosen by its rank in the block.
// launch range<float, 64> grid=4 block=64 shared=512 low=float32[4]:zero high=float32[4]:zero in=float32[256]
// launch range<int, 64> grid=3,2 block=16,4 shared=512 low=int32[6]:zero high=int32[6]:zero in=int32[384]
#include <cooperative_groups.h>
using namespace cooperative_groups;

template <typename T>
struct Scratch {
    __device__ operator T *() {
        extern __shared__ char scratch[];
        return reinterpret_cast<T *>(scratch);
    }
};

template <typename T, int size>
__global__ void range(T *low, T *high, const T *in) {
    thread_block block = this_thread_block();
    thread_block_tile<32> warp = tiled_partition<32>(block);
    T *least = Scratch<T>(), *most = least + size;
    int number = blockIdx.y * gridDim.x + blockIdx.x, rank = block.thread_rank();
    least[rank] = most[rank] = in[number * size + rank];
    block.sync();
    if (block.thread_rank() < 32) {
        T here = least[rank], there = most[rank];
        for (int more = rank + 32; more < size; more += 32) {
            here = min(here, least[more]);
            there = max(there, most[more]);
        }
        for (int by = warp.size() / 2; by > 0; by /= 2) {
            here = min(here, warp.shfl_down(here, by));
            there = max(there, warp.shfl_down(there, by));
        }
        if (warp.thread_rank() == 0) {
            low[number] = here;
            high[number] = there;
        }
    }
}
template __global__ void range<float, 64>(float *, float *, const float *);
template __global__ void range<int, 64>(int *, int *, const int *);
