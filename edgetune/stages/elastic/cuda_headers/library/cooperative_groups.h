// Cooperative groups of a block and of its tiles, as far as elastic kernels use them: by the builtins that they stand
// for. For compilers that come without the CUDA toolkit. Source: CUDA C++ Programming Guide, "Cooperative Groups".
#pragma once

namespace cooperative_groups {

struct thread_block {
    static __device__ void sync() { __syncthreads(); }
    static __device__ unsigned int thread_rank() {
        return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }
    static __device__ unsigned int size() { return blockDim.x * blockDim.y * blockDim.z; }
    static __device__ unsigned int num_threads() { return size(); }
    static __device__ dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    static __device__ dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
    static __device__ dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
    static __device__ dim3 dim_threads() { return group_dim(); }
};

static inline __device__ thread_block this_thread_block() { return thread_block(); }

template <unsigned int Size, typename Parent = void>
struct thread_block_tile;

template <typename Parent>
struct thread_block_tile<32, Parent> {
    __device__ thread_block_tile() {}
    template <typename Other>
    __device__ thread_block_tile(const thread_block_tile<32, Other> &) {}
    static __device__ void sync() { __syncwarp(); }
    static __device__ unsigned int thread_rank() { return thread_block::thread_rank() % 32; }
    static __device__ unsigned int size() { return 32; }
    static __device__ unsigned int num_threads() { return 32; }
    static __device__ unsigned int meta_group_rank() { return thread_block::thread_rank() / 32; }
    static __device__ unsigned int meta_group_size() { return (thread_block::size() + 31) / 32; }
    template <typename T> __device__ T shfl(T value, int lane) const { return __shfl_sync(~0u, value, lane); }
    template <typename T> __device__ T shfl_up(T value, int by) const { return __shfl_up_sync(~0u, value, by); }
    template <typename T> __device__ T shfl_down(T value, int by) const { return __shfl_down_sync(~0u, value, by); }
    template <typename T> __device__ T shfl_xor(T value, int mask) const { return __shfl_xor_sync(~0u, value, mask); }
    __device__ int any(int predicate) const { return __any_sync(~0u, predicate); }
    __device__ int all(int predicate) const { return __all_sync(~0u, predicate); }
    __device__ unsigned int ballot(int predicate) const { return __ballot_sync(~0u, predicate); }
};

template <unsigned int Size, typename Parent>
__device__ thread_block_tile<Size, Parent> tiled_partition(const Parent &) {
    return thread_block_tile<Size, Parent>();
}

template <typename Group>
__device__ void sync(const Group &group) { group.sync(); }

}  // namespace cooperative_groups
