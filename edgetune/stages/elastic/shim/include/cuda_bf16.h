// The upper half of a float for the CPU: every operation in float, rounded to nearest even.
// Source: CUDA Math API, "Bfloat16 Precision Intrinsics". Of these, what kernels commonly use.
#pragma once

struct __nv_bfloat16 {
    unsigned short edgetune_upper;

    __nv_bfloat16() = default;
    __nv_bfloat16(float value) : edgetune_upper(rounded(value)) {}
    __nv_bfloat16(double value) : edgetune_upper(rounded(static_cast<float>(value))) {}
    __nv_bfloat16(int value) : edgetune_upper(rounded(static_cast<float>(value))) {}
    operator float() const { return ::edgetune_bits<float>(static_cast<unsigned int>(edgetune_upper) << 16); }

    static unsigned short rounded(float value) {
        const unsigned int bits = ::edgetune_bits<unsigned int>(value);
        if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;  // not a number, as CUDA writes it
        return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    }
};
typedef __nv_bfloat16 nv_bfloat16;

struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};
typedef __nv_bfloat162 nv_bfloat162;

static inline __nv_bfloat16 __float2bfloat16(float a) { return a; }
static inline __nv_bfloat16 __float2bfloat16_rn(float a) { return a; }
static inline __nv_bfloat16 __double2bfloat16(double a) { return a; }
static inline float __bfloat162float(__nv_bfloat16 a) { return a; }
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 a) { return a.edgetune_upper; }
static inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high) { return {low, high}; }
static inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) { return {low, high}; }
static inline float2 __bfloat1622float2(__nv_bfloat162 a) { return {a.x, a.y}; }

#define EDGETUNE_BINARY(NAME, SIGN)                                                                                    \
    static inline __nv_bfloat16 NAME(__nv_bfloat16 a, __nv_bfloat16 b) {                                               \
        return __bfloat162float(a) SIGN __bfloat162float(b);                                                           \
    }                                                                                                                  \
    static inline __nv_bfloat162 NAME##2(__nv_bfloat162 a, __nv_bfloat162 b) {                                         \
        return {NAME(a.x, b.x), NAME(a.y, b.y)};                                                                       \
    }                                                                                                                  \
    static inline __nv_bfloat16 operator SIGN(__nv_bfloat16 a, __nv_bfloat16 b) { return NAME(a, b); }                 \
    static inline __nv_bfloat162 operator SIGN(__nv_bfloat162 a, __nv_bfloat162 b) { return NAME##2(a, b); }           \
    static inline __nv_bfloat16 &operator SIGN##=(__nv_bfloat16 &a, __nv_bfloat16 b) { return a = NAME(a, b); }
EDGETUNE_BINARY(__hadd, +)
EDGETUNE_BINARY(__hsub, -)
EDGETUNE_BINARY(__hmul, *)
EDGETUNE_BINARY(__hdiv, /)
#undef EDGETUNE_BINARY
