// CUDA C as C++: what a kernel may name, for a kernel whose threads are fibers of one process.
//
//   kernel.cu  --g++ -include cuda_shim.hpp-->  program     threads of a block: fibers of one CPU thread, one at a time;
//                                                           blocks: one after another, those of persistent forms a few
//                                                           in turns
//
// Since only one fiber runs at a time, atomics are plain operations, and since only one block runs at a time, shared
// memory is memory of the one CPU thread: `thread_local` may stand where `__shared__` stands, inside functions and
// templates too, and everything so declared lies in one piece that is filled with a pattern before each block.
// Dynamic shared memory is rewritten by build.py to point to one array. What must wait is in fibers.cpp.
//
// Only what kernels of one file need is here; no host API. Textures, half precision and groups have files of their own.
#pragma once

#include <assert.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <type_traits>
#include <utility>

#define EDGETUNE_SHIM 1
#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __CUDA_ARCH__ 870
#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __shared__ thread_local
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __builtin_assume(condition) ((void)0)
#define __builtin_assume_aligned(pointer, ...) (pointer)

// ---- vectors ---------------------------------------------------------------------------------------------------------

#define EDGETUNE_VECTORS(T, NAME, ALIGN2, ALIGN4)                                                                      \
    struct NAME##1 { T x; };                                                                                           \
    struct alignas(ALIGN2) NAME##2 { T x, y; };                                                                        \
    struct NAME##3 { T x, y, z; };                                                                                     \
    struct alignas(ALIGN4) NAME##4 { T x, y, z, w; };                                                                  \
    static inline NAME##1 make_##NAME##1(T x) { return {x}; }                                                          \
    static inline NAME##2 make_##NAME##2(T x, T y) { return {x, y}; }                                                  \
    static inline NAME##3 make_##NAME##3(T x, T y, T z) { return {x, y, z}; }                                          \
    static inline NAME##4 make_##NAME##4(T x, T y, T z, T w) { return {x, y, z, w}; }
// Alignments: CUDA C++ Programming Guide, "Built-in Vector Types".
EDGETUNE_VECTORS(signed char, char, 2, 4)
EDGETUNE_VECTORS(unsigned char, uchar, 2, 4)
EDGETUNE_VECTORS(short, short, 4, 8)
EDGETUNE_VECTORS(unsigned short, ushort, 4, 8)
EDGETUNE_VECTORS(int, int, 8, 16)
EDGETUNE_VECTORS(unsigned int, uint, 8, 16)
EDGETUNE_VECTORS(long, long, 16, 16)
EDGETUNE_VECTORS(unsigned long, ulong, 16, 16)
EDGETUNE_VECTORS(long long, longlong, 16, 16)
EDGETUNE_VECTORS(unsigned long long, ulonglong, 16, 16)
EDGETUNE_VECTORS(float, float, 8, 16)
EDGETUNE_VECTORS(double, double, 16, 16)
#undef EDGETUNE_VECTORS

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

// What structs and prototypes of headers name, and no kernel looks into.
typedef struct CUstream_st *cudaStream_t, *CUstream;
typedef struct CUevent_st *cudaEvent_t, *CUevent;
typedef struct cudaArray *cudaArray_t;
typedef struct cudaMipmappedArray *cudaMipmappedArray_t;
typedef struct cudaGraphicsResource *cudaGraphicsResource_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
typedef unsigned long long CUdeviceptr;
typedef enum cudaError { cudaSuccess, cudaErrorInvalidValue, cudaErrorMemoryAllocation } cudaError_t;
struct cudaExtent { size_t width, height, depth; };
struct cudaPos { size_t x, y, z; };

// What kernels call of the runtime: the heap, and the last error, of which there is none.
template <class T> cudaError_t cudaMalloc(T **at, size_t bytes) {
    *at = (T *)malloc(bytes);
    return *at == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
inline cudaError_t cudaFree(void *at) { return free(at), cudaSuccess; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
inline const char *cudaGetErrorString(cudaError_t error) { return error == cudaSuccess ? "no error" : "error"; }
inline const char *cudaGetErrorName(cudaError_t error) { return error == cudaSuccess ? "cudaSuccess" : "cudaError"; }

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

// ---- what waits for other threads (fibers.cpp) -----------------------------------------------------------------------

namespace edgetune_shim {

// Where in the source a thread waits. Two on one line differ by their site.
struct Place {
    const char *name;
    const char *file;
    int line;
    int site;
};

struct Votes {
    unsigned int yes, all;
};

// Wait for all threads of the block that have not returned.
Votes block_barrier(Place place, bool vote);

// What a lane brings to its warp, and what it takes away.
struct Lane {
    unsigned long long value;  // given; taken: that of the source lane
    int source;                // lane whose value is wanted
    unsigned int vote;         // given: 0 or 1; taken: a bit for each lane of the mask
    unsigned int equal;        // taken: the lanes with the same value
    unsigned int members;      // taken: the lanes that took part
};

// Wait for all lanes of the mask that have not returned.
void warp_meeting(Place place, unsigned int mask, Lane &lane);

// Count from the beginning at the first of the calls in a kernel, and faster and faster at a call that is repeated.
long long ticks(int site);

unsigned int lane_number();

static inline unsigned int differences_of_bytes(unsigned int a, unsigned int b) {
    unsigned int sum = 0;
    for (int shift = 0; shift < 32; shift += 8) sum += abs((int)(a >> shift & 255) - (int)(b >> shift & 255));
    return sum;
}
unsigned int living_lanes();

extern unsigned char dynamic_shared[];

enum Mode { from, up, down, across };

// Semantics: PTX ISA, shfl.sync.
template <Mode mode, class T>
T shuffle(Place place, unsigned int mask, T value, int by, int width = 32) {
    const int self = static_cast<int>(lane_number()), first = self & ~(width - 1), last = first + width - 1;
    int source = mode == from ? first + (by & (width - 1)) : mode == up ? self - by : mode == down ? self + by : self ^ by;
    if ((mode == up && source < first) || (mode > up && source > last)) source = self;
    for (size_t moved = 0; moved < sizeof(T); moved += 8) {  // groups shuffle what is larger, too
        const size_t bytes = sizeof(T) - moved < 8 ? sizeof(T) - moved : 8;
        Lane lane{0, source, 0, 0, 0};
        memcpy(&lane.value, reinterpret_cast<char *>(&value) + moved, bytes);
        warp_meeting(place, mask, lane);
        memcpy(reinterpret_cast<char *>(&value) + moved, &lane.value, bytes);
    }
    return value;
}

inline Lane vote(Place place, unsigned int mask, bool yes) {
    Lane lane{0, static_cast<int>(lane_number()), yes, 0, 0};
    warp_meeting(place, mask, lane);
    return lane;
}

template <class T>
Lane match(Place place, unsigned int mask, T value) {
    Lane lane{0, static_cast<int>(lane_number()), 0, 0, 0};
    memcpy(&lane.value, &value, sizeof(T));
    warp_meeting(place, mask, lane);
    return lane;
}

// One meeting for each other lane: slow and plain.
template <class T, class Operation>
T reduce(Place place, unsigned int mask, T value, Operation operation) {
    T total{};
    bool first = true;
    for (int source = 0; source < 32; ++source)
        if (mask >> source & 1) {
            const T other = shuffle<from>(place, mask, value, source);
            total = first ? other : operation(total, other);
            first = false;
        }
    return total;
}

template <class T>
using Same = typename std::enable_if<true, T>::type;  // a parameter that takes no part in deduction

}  // namespace edgetune_shim

#define EDGETUNE_HERE(name) edgetune_shim::Place{name, __FILE__, __LINE__, __COUNTER__}
#define __syncthreads() ((void)edgetune_shim::block_barrier(EDGETUNE_HERE("__syncthreads"), false))
#define __syncthreads_count(p) ((int)edgetune_shim::block_barrier(EDGETUNE_HERE("__syncthreads_count"), (p)).yes)
#define __syncthreads_or(p) ((int)(edgetune_shim::block_barrier(EDGETUNE_HERE("__syncthreads_or"), (p)).yes != 0))
#define __syncthreads_and(p)                                                                                           \
    ([](edgetune_shim::Votes v) { return (int)(v.yes == v.all); }(                                                     \
        edgetune_shim::block_barrier(EDGETUNE_HERE("__syncthreads_and"), (p))))

// Lanes may meet at different calls of __syncwarp, so it has no site; other primitives must be one and the same.
#define __syncwarp(...) edgetune_syncwarp({"__syncwarp", __FILE__, __LINE__, -1}, ##__VA_ARGS__)
static inline void edgetune_syncwarp(edgetune_shim::Place place, unsigned int mask = 0xffffffffu) {
    edgetune_shim::Lane lane{0, static_cast<int>(edgetune_shim::lane_number()), 0, 0, 0};
    edgetune_shim::warp_meeting(place, mask, lane);
}

#define __shfl_sync(...) edgetune_shim::shuffle<edgetune_shim::from>(EDGETUNE_HERE("__shfl_sync"), __VA_ARGS__)
#define __shfl_up_sync(...) edgetune_shim::shuffle<edgetune_shim::up>(EDGETUNE_HERE("__shfl_up_sync"), __VA_ARGS__)
#define __shfl_down_sync(...) edgetune_shim::shuffle<edgetune_shim::down>(EDGETUNE_HERE("__shfl_down_sync"), __VA_ARGS__)
#define __shfl_xor_sync(...) edgetune_shim::shuffle<edgetune_shim::across>(EDGETUNE_HERE("__shfl_xor_sync"), __VA_ARGS__)
#define __shfl(...) edgetune_shim::shuffle<edgetune_shim::from>(EDGETUNE_HERE("__shfl"), ~0u, __VA_ARGS__)
#define __shfl_up(...) edgetune_shim::shuffle<edgetune_shim::up>(EDGETUNE_HERE("__shfl_up"), ~0u, __VA_ARGS__)
#define __shfl_down(...) edgetune_shim::shuffle<edgetune_shim::down>(EDGETUNE_HERE("__shfl_down"), ~0u, __VA_ARGS__)
#define __shfl_xor(...) edgetune_shim::shuffle<edgetune_shim::across>(EDGETUNE_HERE("__shfl_xor"), ~0u, __VA_ARGS__)

#define __ballot_sync(mask, p) (edgetune_shim::vote(EDGETUNE_HERE("__ballot_sync"), (mask), (p)).vote)
#define __any_sync(mask, p) ((int)(edgetune_shim::vote(EDGETUNE_HERE("__any_sync"), (mask), (p)).vote != 0))
#define __all_sync(mask, p)                                                                                            \
    ([](edgetune_shim::Lane l) { return (int)(l.vote == l.members); }(                                                 \
        edgetune_shim::vote(EDGETUNE_HERE("__all_sync"), (mask), (p))))
#define __ballot(p) __ballot_sync(~0u, p)
#define __any(p) __any_sync(~0u, p)
#define __all(p) __all_sync(~0u, p)
#define __match_any_sync(mask, value) (edgetune_shim::match(EDGETUNE_HERE("__match_any_sync"), (mask), (value)).equal)
#define __match_all_sync(mask, value, same)                                                                            \
    ([](edgetune_shim::Lane l, int *all) { *all = l.equal == l.members; return *all ? l.members : 0u; }(               \
        edgetune_shim::match(EDGETUNE_HERE("__match_all_sync"), (mask), (value)), (same)))
#define EDGETUNE_REDUCE(name, mask, value, expression)                                                                 \
    edgetune_shim::reduce(EDGETUNE_HERE(name), (mask), (value), [](auto a, auto b) { return expression; })
#define __reduce_add_sync(mask, value) EDGETUNE_REDUCE("__reduce_add_sync", mask, value, a + b)
#define __reduce_min_sync(mask, value) EDGETUNE_REDUCE("__reduce_min_sync", mask, value, a < b ? a : b)
#define __reduce_max_sync(mask, value) EDGETUNE_REDUCE("__reduce_max_sync", mask, value, a > b ? a : b)
#define __reduce_and_sync(mask, value) EDGETUNE_REDUCE("__reduce_and_sync", mask, value, a & b)
#define __reduce_or_sync(mask, value) EDGETUNE_REDUCE("__reduce_or_sync", mask, value, a | b)
#define __reduce_xor_sync(mask, value) EDGETUNE_REDUCE("__reduce_xor_sync", mask, value, a ^ b)

// Fibers have no lock-step, so which lanes took the same branch is not known: those that have not returned.
static inline unsigned int __activemask() { return edgetune_shim::living_lanes(); }

static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline void __nanosleep(unsigned int) {}
static inline void __trap() { __builtin_trap(); }

// Clocks are counters of the thread, which end a wait, and are equal in all forms of a kernel that times itself.
#define clock() ((clock_t)edgetune_shim::ticks(__COUNTER__))
#define clock64() edgetune_shim::ticks(__COUNTER__)
#define __clock() ((int)edgetune_shim::ticks(__COUNTER__))
#define __clock64() edgetune_shim::ticks(__COUNTER__)
#define __globaltimer() ((unsigned long long)edgetune_shim::ticks(__COUNTER__))

// ---- atomics ---------------------------------------------------------------------------------------------------------

namespace edgetune_shim {
extern const volatile char *counter;  // of the logical blocks that a persistent form takes, and that of those done behind
void before_take();
void after_count();
static inline void before_atomic(const volatile void *address) {
    if (__builtin_expect(address == counter, 0)) before_take();
}
static inline void after_atomic(const volatile void *address) {
    if (__builtin_expect(static_cast<size_t>(static_cast<const volatile char *>(address) - counter) <= 4, 0)) after_count();
}
}  // namespace edgetune_shim


#define EDGETUNE_ATOMIC(NAME, RESULT)                                                                                  \
    template <class T>                                                                                                 \
    static inline T NAME(T *address, edgetune_shim::Same<T> value) {                                                   \
        edgetune_shim::before_atomic(address);                                                                         \
        const T old = *address;                                                                                        \
        *address = RESULT;                                                                                             \
        edgetune_shim::after_atomic(address);                                                                          \
        return old;                                                                                                    \
    }                                                                                                                  \
    template <class T>                                                                                                 \
    static inline T NAME##_block(T *address, edgetune_shim::Same<T> value) { return NAME(address, value); }            \
    template <class T>                                                                                                 \
    static inline T NAME##_system(T *address, edgetune_shim::Same<T> value) { return NAME(address, value); }
EDGETUNE_ATOMIC(atomicAdd, static_cast<T>(old + value))
EDGETUNE_ATOMIC(atomicSub, static_cast<T>(old - value))
EDGETUNE_ATOMIC(atomicExch, value)
EDGETUNE_ATOMIC(atomicMin, old < value ? old : value)
EDGETUNE_ATOMIC(atomicMax, old > value ? old : value)
EDGETUNE_ATOMIC(atomicAnd, static_cast<T>(old & value))
EDGETUNE_ATOMIC(atomicOr, static_cast<T>(old | value))
EDGETUNE_ATOMIC(atomicXor, static_cast<T>(old ^ value))
EDGETUNE_ATOMIC(atomicInc, old >= value ? T(0) : T(old + 1))
EDGETUNE_ATOMIC(atomicDec, old == 0 || old > value ? value : T(old - 1))
#undef EDGETUNE_ATOMIC
template <class T>
static inline T atomicCAS(T *address, edgetune_shim::Same<T> expected, edgetune_shim::Same<T> value) {
    edgetune_shim::before_atomic(address);
    const T old = *address;
    if (old == expected) *address = value;
    edgetune_shim::after_atomic(address);
    return old;
}
template <class T>
static inline T atomicCAS_block(T *address, edgetune_shim::Same<T> expected, edgetune_shim::Same<T> value) {
    return atomicCAS(address, expected, value);
}
template <class T>
static inline T atomicCAS_system(T *address, edgetune_shim::Same<T> expected, edgetune_shim::Same<T> value) {
    return atomicCAS(address, expected, value);
}

// ---- loads, bits, arithmetic ----------------------------------------------------------------------------------------

template <class T> static inline T __ldg(const T *address) { return *address; }
template <class T> static inline T __ldcg(const T *address) { return *address; }
template <class T> static inline T __ldca(const T *address) { return *address; }
template <class T> static inline T __ldcs(const T *address) { return *address; }
template <class T> static inline void __stcg(T *address, edgetune_shim::Same<T> value) { *address = value; }
template <class T> static inline void __stcs(T *address, edgetune_shim::Same<T> value) { *address = value; }

#define EDGETUNE_EXTREMA(A, B, R)                                                                                      \
    static inline R min(A a, B b) { return static_cast<R>(a) < static_cast<R>(b) ? static_cast<R>(a) : static_cast<R>(b); } \
    static inline R max(A a, B b) { return static_cast<R>(a) > static_cast<R>(b) ? static_cast<R>(a) : static_cast<R>(b); }
EDGETUNE_EXTREMA(int, int, int)
EDGETUNE_EXTREMA(unsigned int, unsigned int, unsigned int)
EDGETUNE_EXTREMA(int, unsigned int, unsigned int)
EDGETUNE_EXTREMA(unsigned int, int, unsigned int)
EDGETUNE_EXTREMA(long, long, long)
EDGETUNE_EXTREMA(unsigned long, unsigned long, unsigned long)
EDGETUNE_EXTREMA(long, unsigned long, unsigned long)
EDGETUNE_EXTREMA(unsigned long, long, unsigned long)
EDGETUNE_EXTREMA(long long, long long, long long)
EDGETUNE_EXTREMA(unsigned long long, unsigned long long, unsigned long long)
EDGETUNE_EXTREMA(long long, unsigned long long, unsigned long long)
EDGETUNE_EXTREMA(unsigned long long, long long, unsigned long long)
#undef EDGETUNE_EXTREMA
static inline unsigned int umin(unsigned int a, unsigned int b) { return a < b ? a : b; }
static inline unsigned int umax(unsigned int a, unsigned int b) { return a > b ? a : b; }
static inline long long llmin(long long a, long long b) { return a < b ? a : b; }
static inline long long llmax(long long a, long long b) { return a > b ? a : b; }
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
static inline double min(float a, double b) { return fmin(a, b); }
static inline double max(float a, double b) { return fmax(a, b); }
static inline double min(double a, float b) { return fmin(a, b); }
static inline double max(double a, float b) { return fmax(a, b); }

// The fast forms have fewer right bits on a GPU. Macros, because the C library declares functions of these names.
#define __expf expf
#define __exp10f exp10f
#define __logf logf
#define __log2f log2f
#define __log10f log10f
#define __powf powf
#define __sinf sinf
#define __cosf cosf
#define __tanf tanf
#define __tanhf tanhf
#define __sincosf sincosf
#define __fdividef(a, b) ((float)(a) / (float)(b))
#define fdividef(a, b) ((float)(a) / (float)(b))
static inline float edgetune_rsqrt(float x) { return 1.0f / sqrtf(x); }
static inline double edgetune_rsqrt(double x) { return 1.0 / sqrt(x); }
#define rsqrtf(x) edgetune_rsqrt((float)(x))
#define rsqrt edgetune_rsqrt  // newer C libraries have functions of these names
static inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
static inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline float __frsqrt_rn(float a) { return edgetune_rsqrt(a); }
static inline float __frcp_rn(float a) { return 1.0f / a; }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }

template <class To, class From>
static inline To edgetune_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "same bits, other type");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline int __float_as_int(float x) { return edgetune_bits<int>(x); }
static inline unsigned int __float_as_uint(float x) { return edgetune_bits<unsigned int>(x); }
static inline float __int_as_float(int x) { return edgetune_bits<float>(x); }
static inline float __uint_as_float(unsigned int x) { return edgetune_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return edgetune_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return edgetune_bits<double>(x); }
static inline int __float2int_rn(float x) { return (int)nearbyintf(x); }
static inline int __float2int_rz(float x) { return (int)x; }
static inline int __float2int_rd(float x) { return (int)floorf(x); }
static inline int __float2int_ru(float x) { return (int)ceilf(x); }
static inline unsigned int __float2uint_rn(float x) { return (unsigned int)nearbyintf(x); }
static inline unsigned int __float2uint_rz(float x) { return (unsigned int)x; }
static inline float __int2float_rn(int x) { return (float)x; }
static inline float __uint2float_rn(unsigned int x) { return (float)x; }
static inline int __popc(unsigned int x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned int)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned int __brev(unsigned int x) {
    unsigned int reversed = 0;
    for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1u) << (31 - bit);
    return reversed;
}
static inline int __mul24(int a, int b) { return ((a << 8) >> 8) * ((b << 8) >> 8); }
static inline unsigned int __umul24(unsigned int a, unsigned int b) { return (a & 0xffffffu) * (b & 0xffffffu); }
static inline int __mulhi(int a, int b) { return (int)(((long long)a * b) >> 32); }
static inline unsigned int __umulhi(unsigned int a, unsigned int b) {
    return (unsigned int)(((unsigned long long)a * b) >> 32);
}
static inline unsigned int __sad(int a, int b, unsigned int c) { return c + (unsigned int)(a > b ? a - b : b - a); }
static inline unsigned int __usad(unsigned int a, unsigned int b, unsigned int c) { return c + (a > b ? a - b : b - a); }
static inline int __dp4a(int a, int b, int c) {
    for (int at = 0; at < 32; at += 8) c += (signed char)(a >> at) * (signed char)(b >> at);
    return c;
}
static inline unsigned int __funnelshift_l(unsigned int low, unsigned int high, unsigned int by) {
    by &= 31;
    return by ? high << by | low >> (32 - by) : high;
}
static inline unsigned int __funnelshift_r(unsigned int low, unsigned int high, unsigned int by) {
    by &= 31;
    return by ? low >> by | high << (32 - by) : low;
}

#include "textures.hpp"

// ---- launches --------------------------------------------------------------------------------------------------------

namespace edgetune_shim {

// A kernel as cuLaunchKernel sees it: by name, its arguments behind an array of pointers.
struct Entry {
    const char *name;
    unsigned int parameters;
    const unsigned int *sizes_bytes;
    void (*call)(void **arguments);
};

extern const Entry entries[];
extern const unsigned int entry_count;
extern const char *const source_name;

template <auto kernel>
struct Unpacked;

template <class... P, void (*kernel)(P...)>
struct Unpacked<kernel> {
    static constexpr unsigned int parameters = sizeof...(P);
    static constexpr unsigned int sizes_bytes[sizeof...(P) + 1] = {sizeof(P)..., 0};

    template <size_t... I>
    static void unpack(void **arguments, std::index_sequence<I...>) {
        kernel(*static_cast<typename std::remove_cv<P>::type *>(arguments[I])...);
    }
    static void call(void **arguments) { unpack(arguments, std::index_sequence_for<P...>{}); }
};

template <auto kernel>
constexpr Entry entry(const char *name) {
    return {name, Unpacked<kernel>::parameters, Unpacked<kernel>::sizes_bytes, Unpacked<kernel>::call};
}

}  // namespace edgetune_shim
