"""An elastic kernel written by hand to the letter of ``abi``, and what a careless generator would have made of it."""

from __future__ import annotations

from ptx_corpus import compiled

from edgetune.stages.elastic.kernel import CudaKernel, ElasticKernel, TransformResult, Variant

STRUCT = """
struct edgetune_launch_t { unsigned int grid[3], block[3], first, count; };
"""
ORIGINAL = """
// launch mix grid=3,2 block=16,2 data=int32[192] counts=int32[6]:zero n=int32:180
extern "C" __global__ void mix(int *data, int *counts, int n) {
    __shared__ int held[32];
    const int t = threadIdx.y * blockDim.x + threadIdx.x;
    const int i = (blockIdx.y * gridDim.x + blockIdx.x) * 32 + t;
    if (i >= n) return;
    int own = data[i];
    held[t] = own;
    __syncthreads();
    int other = held[t ^ 1];
    __syncthreads();
    held[t] = 2 * other;
    __syncthreads();
    data[i] += 3 * own + other + held[t ^ 2] + gridDim.y;
    atomicAdd(&counts[blockIdx.y * gridDim.x + blockIdx.x], 1);
}
"""

FORMS = f"""
{STRUCT}
__device__ __forceinline__ void mix__body(int *data, int *counts, int n, uint3 block_index, dim3 grid) {{
    __shared__ int held[32];
    const int t = threadIdx.y * blockDim.x + threadIdx.x;
    const int i = (block_index.y * grid.x + block_index.x) * 32 + t;
    const bool live = i < n;  // who has nothing to do must not run ahead to the barriers of the next block
    int own = 0, other = 0;
    if (live) held[t] = own = data[i];
    __syncthreads();  // A
    if (live) other = held[t ^ 1];
    __syncthreads();  // B
    if (live) held[t] = 2 * other;
    __syncthreads();  // C
    if (!live) return;
    data[i] += 3 * own + other + held[t ^ 2] + grid.y;
    atomicAdd(&counts[block_index.y * grid.x + block_index.x], 1);
}}
extern "C" __global__ void mix__grid(int *data, int *counts, int n, edgetune_launch_t edgetune_launch) {{
    const dim3 grid(edgetune_launch.grid[0], edgetune_launch.grid[1], edgetune_launch.grid[2]);
    for (unsigned b = blockIdx.x; b < edgetune_launch.count; b += gridDim.x) {{
        const unsigned logical = edgetune_launch.first + b;
        mix__body(data, counts, n, make_uint3(logical % grid.x, logical / grid.x % grid.y, 0), grid);
        __syncthreads();  // D
    }}
}}
extern "C" __global__ void mix__block2(int *data, int *counts, int n, edgetune_launch_t edgetune_launch) {{
    __shared__ int held[32];
    const unsigned rows = edgetune_launch.grid[1];
    for (unsigned b = blockIdx.x; b < edgetune_launch.count; b += gridDim.x) {{
        const unsigned logical = edgetune_launch.first + b;
        int own[2], other[2];
        bool live[2];
        for (int k = 0; k < 2; ++k) {{  // 1
            const int t = threadIdx.x + k * blockDim.x, i = logical * 32 + t;
            live[k] = i < n;
            if (!live[k]) continue;
            own[k] = data[i];
            held[t] = own[k];
        }}
        __syncthreads();  // E
        for (int k = 0; k < 2; ++k) {{  // 2
            const int t = threadIdx.x + k * blockDim.x;
            if (live[k]) other[k] = held[t ^ 1];
        }}
        __syncthreads();  // F
        for (int k = 0; k < 2; ++k) {{  // 3
            const int t = threadIdx.x + k * blockDim.x;
            if (live[k]) held[t] = 2 * other[k];
        }}
        __syncthreads();  // G
        for (int k = 0; k < 2; ++k) {{  // 4
            const int t = threadIdx.x + k * blockDim.x, i = logical * 32 + t;
            if (!live[k]) continue;
            data[i] += 3 * own[k] + other[k] + held[t ^ 2] + rows;
            atomicAdd(&counts[logical], 1);
        }}
        __syncthreads();  // H
    }}
}}
"""

_BARRIER = "__syncthreads();  // "
MUTANTS = {
    **{f"barrier {name} is dropped": (_BARRIER + name + "\n", "\n") for name in "ABCDEFGH"},
    "the physical block index is left in": ("(block_index.y * grid.x + block_index.x) * 32", "blockIdx.x * 32"),
    "the physical grid is left in": ("held[t ^ 2] + grid.y", "held[t ^ 2] + gridDim.y"),
    "one block too few": ("b < edgetune_launch.count", "b + 1 < edgetune_launch.count"),
    "one block too many": ("b < edgetune_launch.count", "b <= edgetune_launch.count"),
    "shards all begin at the first block": ("edgetune_launch.first + b", "b"),
    "x and y change places": (
        "logical % grid.x, logical / grid.x % grid.y",
        "logical / grid.x % grid.y, logical % grid.x",
    ),
    "the step is the logical grid": ("b += gridDim.x", "b += edgetune_launch.grid[0]"),
    "a logical thread is forgotten": ("for (int k = 0; k < 2; ++k) {  // 3", "for (int k = 0; k < 1; ++k) {"),
    "a local is shared by logical threads": ("held[t] = own[k];", "own[0] = own[k]; held[t] = own[k];"),
    "a thread that has returned goes on": ("live[k] = i < n;", "live[k] = true;"),
    "logical threads are one": ("threadIdx.x + k * blockDim.x", "threadIdx.x"),
    "a barrier in a branch": (
        _BARRIER + "F",
        "if (live[1]) __syncthreads();\n        else\n            __syncthreads();",
    ),
    "a thread runs ahead": ("const bool live = i < n;", "if (i >= n) return; const bool live = true;"),
    "a thread never ends": ("if (!live) return;", "while (!live) atomicAdd(&counts[0], 0);"),
}
"""What it is: text that stands in the forms, and what stands there instead."""


def transformed(forms: str = FORMS) -> TransformResult:
    variants = (Variant("mix__grid", "grid"), Variant("mix__block2", "block", 2))
    kernel = CudaKernel("mix", 3, (), barriers=3, static_shared=True)
    return TransformResult(compiled(ORIGINAL + forms), (ElasticKernel(kernel, variants),))
