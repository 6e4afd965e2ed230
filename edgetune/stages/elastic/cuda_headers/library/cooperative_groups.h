// Cooperative groups of a block and of parts of its warps, as far as elastic kernels use them: by the builtins that they
// stand for. For compilers that come without the CUDA toolkit. Source: CUDA C++ Programming Guide, "Cooperative Groups".
#pragma once

namespace cooperative_groups {

// A group of which only who made it knows the kind: `tile` threads, a part of a tile of `parent`; 0 is the block.
struct thread_group {
    unsigned int tile, parent;
    __device__ thread_group(unsigned int tile, unsigned int parent) : tile(tile), parent(parent) {}
    static __device__ unsigned int rank_in_block() {
        return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }
    static __device__ unsigned int block_size() { return blockDim.x * blockDim.y * blockDim.z; }
    __device__ unsigned int first_lane() const { return rank_in_block() % 32 / tile * tile; }
    __device__ unsigned int mask() const { return tile == 32 ? ~0u : ((1u << tile) - 1) << first_lane(); }
    __device__ void sync() const {
        if (tile) __syncwarp(mask());
        else __syncthreads();
    }
    __device__ unsigned int thread_rank() const { return tile ? rank_in_block() % tile : rank_in_block(); }
    __device__ unsigned int size() const { return tile ? tile : block_size(); }
    __device__ unsigned int num_threads() const { return size(); }
};

struct thread_block : thread_group {
    __device__ thread_block() : thread_group(0, 0) {}
    static __device__ void sync() { __syncthreads(); }
    static __device__ unsigned int thread_rank() { return rank_in_block(); }
    static __device__ unsigned int size() { return block_size(); }
    static __device__ unsigned int num_threads() { return block_size(); }
    static __device__ dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    static __device__ dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
    static __device__ dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
    static __device__ dim3 dim_threads() { return group_dim(); }
};

static inline __device__ thread_block this_thread_block() { return thread_block(); }

// The grid, as far as it waits for nothing.
struct grid_group {
    static __device__ unsigned long long block_rank() {
        return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    }
    static __device__ unsigned long long num_blocks() { return gridDim.x * gridDim.y * gridDim.z; }
    static __device__ unsigned long long thread_rank() {
        return block_rank() * thread_group::block_size() + thread_group::rank_in_block();
    }
    static __device__ unsigned long long size() { return num_blocks() * thread_group::block_size(); }
    static __device__ unsigned long long num_threads() { return size(); }
    static __device__ dim3 block_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    static __device__ dim3 group_dim() { return dim3(gridDim.x, gridDim.y, gridDim.z); }
    static __device__ dim3 dim_blocks() { return group_dim(); }
};

static inline __device__ grid_group this_grid() { return grid_group(); }

template <unsigned int Size, typename Parent = void>
struct thread_block_tile : thread_group {
    static_assert(Size <= 32 && (Size & (Size - 1)) == 0, "tiles are parts of warps here");
    __device__ explicit thread_block_tile(const thread_group &parent) : thread_group(Size, parent.tile) {}
    template <typename Other>
    __device__ thread_block_tile(const thread_block_tile<Size, Other> &other) : thread_group(Size, other.parent) {}
    static __device__ constexpr unsigned int size() { return Size; }
    static __device__ constexpr unsigned int num_threads() { return Size; }
    __device__ unsigned int meta_group_rank() const {
        return (parent ? rank_in_block() % parent : rank_in_block()) / Size;
    }
    __device__ unsigned int meta_group_size() const { return ((parent ? parent : block_size()) + Size - 1) / Size; }
    template <typename T>
    __device__ T shfl(T value, int lane) const { return __shfl_sync(mask(), value, lane, Size); }
    template <typename T>
    __device__ T shfl_up(T value, int by) const { return __shfl_up_sync(mask(), value, by, Size); }
    template <typename T>
    __device__ T shfl_down(T value, int by) const { return __shfl_down_sync(mask(), value, by, Size); }
    template <typename T>
    __device__ T shfl_xor(T value, int lanes) const { return __shfl_xor_sync(mask(), value, lanes, Size); }
    __device__ int any(int predicate) const { return __any_sync(mask(), predicate); }
    __device__ int all(int predicate) const { return __all_sync(mask(), predicate); }
    __device__ unsigned int ballot(int predicate) const { return __ballot_sync(mask(), predicate) >> first_lane(); }
};

template <unsigned int Size, typename Parent>
__device__ thread_block_tile<Size, Parent> tiled_partition(const Parent &parent) {
    return thread_block_tile<Size, Parent>(static_cast<const thread_group &>(parent));
}

static inline __device__ thread_group tiled_partition(const thread_group &parent, unsigned int size) {
    return thread_group(size, parent.tile);
}

template <typename Group>
__device__ void sync(const Group &group) { group.sync(); }

template <typename T> struct plus { __device__ T operator()(T a, T b) const { return a + b; } };
template <typename T> struct less { __device__ T operator()(T a, T b) const { return b < a ? b : a; } };
template <typename T> struct greater { __device__ T operator()(T a, T b) const { return a < b ? b : a; } };
template <typename T> struct bit_and { __device__ T operator()(T a, T b) const { return a & b; } };
template <typename T> struct bit_or { __device__ T operator()(T a, T b) const { return a | b; } };
template <typename T> struct bit_xor { __device__ T operator()(T a, T b) const { return a ^ b; } };

template <unsigned int Size, typename Parent, typename T, typename Operation>
__device__ T reduce(const thread_block_tile<Size, Parent> &tile, T value, Operation operation) {
    for (unsigned int by = Size / 2; by > 0; by /= 2) value = operation(value, tile.shfl_xor(value, by));
    return value;
}

}  // namespace cooperative_groups
