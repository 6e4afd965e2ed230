// Half precision for the CPU: 16 bits, every operation in float and rounded to nearest even, a fused one in double.
// Source: IEEE 754 binary16; CUDA Math API, "Half Precision Intrinsics". Of these, what kernels commonly use.
#pragma once

struct __half_raw { unsigned short x; };

struct __half {
    unsigned short edgetune_bits;

    __half() = default;
    __half(const __half_raw &raw) : edgetune_bits(raw.x) {}
    __half(double value) : edgetune_bits(rounded(static_cast<float>(value))) {}
    __half(float value) : edgetune_bits(rounded(value)) {}
    __half(int value) : edgetune_bits(rounded(static_cast<float>(value))) {}
    __half(unsigned int value) : edgetune_bits(rounded(static_cast<float>(value))) {}
    operator float() const { return widened(edgetune_bits); }
    operator __half_raw() const { return {edgetune_bits}; }

    static unsigned short rounded(float value) {
        const unsigned int bits = ::edgetune_bits<unsigned int>(value), sign = bits >> 16 & 0x8000u;
        const unsigned int magnitude = bits & 0x7fffffffu;
        if (magnitude > 0x7f800000u) return 0x7fff;  // not a number, as CUDA writes it
        if (magnitude >= 0x477ff000u) return sign | 0x7c00u;
        if (magnitude < 0x38800000u) {  // subnormal: a multiple of 2^-24
            const float scaled = ::edgetune_bits<float>(magnitude) * 16777216.0f;
            return sign | static_cast<unsigned int>(nearbyintf(scaled));
        }
        return sign | ((magnitude + 0xfffu + (magnitude >> 13 & 1u)) - 0x38000000u) >> 13;
    }

    static float widened(unsigned short half) {
        const unsigned int sign = (half & 0x8000u) << 16, magnitude = half & 0x7fffu;
        if (magnitude >= 0x7c00u) return ::edgetune_bits<float>(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
        if (magnitude < 0x400u) {
            const float value = static_cast<float>(magnitude) / 16777216.0f;
            return sign ? -value : value;
        }
        return ::edgetune_bits<float>(sign | ((magnitude << 13) + 0x38000000u));
    }
};
typedef __half half;

struct alignas(4) __half2 {
    __half x, y;
    __half2() = default;
    __half2(const __half &low, const __half &high) : x(low), y(high) {}
};
typedef __half2 half2;

static inline __half __float2half(float a) { return __half(a); }
static inline __half __float2half_rn(float a) { return __half(a); }
static inline __half __double2half(double a) { return __half(a); }
static inline float __half2float(__half a) { return a; }
static inline __half __int2half_rn(int a) { return __half(static_cast<float>(a)); }
static inline __half __uint2half_rn(unsigned int a) { return __half(static_cast<float>(a)); }
static inline int __half2int_rn(__half a) { return static_cast<int>(nearbyintf(a)); }
static inline int __half2int_rz(__half a) { return static_cast<int>(static_cast<float>(a)); }
static inline unsigned short __half_as_ushort(__half a) { return a.edgetune_bits; }
static inline __half __ushort_as_half(unsigned short a) { return __half_raw{a}; }
static inline __half2 __halves2half2(__half low, __half high) { return {low, high}; }
static inline __half2 make_half2(__half low, __half high) { return {low, high}; }
static inline __half2 __half2half2(__half a) { return {a, a}; }
static inline __half2 __float2half2_rn(float a) { return {__half(a), __half(a)}; }
static inline __half2 __floats2half2_rn(float low, float high) { return {__half(low), __half(high)}; }
static inline __half2 __float22half2_rn(float2 a) { return {__half(a.x), __half(a.y)}; }
static inline float2 __half22float2(__half2 a) { return {a.x, a.y}; }
static inline __half __low2half(__half2 a) { return a.x; }
static inline __half __high2half(__half2 a) { return a.y; }
static inline float __low2float(__half2 a) { return a.x; }
static inline float __high2float(__half2 a) { return a.y; }
static inline __half2 __lowhigh2highlow(__half2 a) { return {a.y, a.x}; }

static inline __half __hfma(__half a, __half b, __half c) {
    return __half(fma(static_cast<double>(a), static_cast<double>(b), static_cast<double>(c)));
}
static inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
static inline __half __hneg(__half a) { return __ushort_as_half(a.edgetune_bits ^ 0x8000u); }
static inline __half __habs(__half a) { return __ushort_as_half(a.edgetune_bits & 0x7fffu); }
static inline __half2 __hneg2(__half2 a) { return {__hneg(a.x), __hneg(a.y)}; }
static inline __half2 __habs2(__half2 a) { return {__habs(a.x), __habs(a.y)}; }
static inline bool __hisnan(__half a) { return (a.edgetune_bits & 0x7fffu) > 0x7c00u; }

#define EDGETUNE_BINARY(NAME, SIGN)                                                                                    \
    static inline __half NAME(__half a, __half b) { return __half(__half2float(a) SIGN __half2float(b)); }             \
    static inline __half2 NAME##2(__half2 a, __half2 b) { return {NAME(a.x, b.x), NAME(a.y, b.y)}; }                   \
    static inline __half operator SIGN(__half a, __half b) { return NAME(a, b); }                                      \
    static inline __half2 operator SIGN(__half2 a, __half2 b) { return NAME##2(a, b); }                                \
    static inline __half &operator SIGN##=(__half &a, __half b) { return a = NAME(a, b); }                             \
    static inline __half2 &operator SIGN##=(__half2 &a, __half2 b) { return a = NAME##2(a, b); }
EDGETUNE_BINARY(__hadd, +)
EDGETUNE_BINARY(__hsub, -)
EDGETUNE_BINARY(__hmul, *)
EDGETUNE_BINARY(__hdiv, /)
#undef EDGETUNE_BINARY
#define __h2div __hdiv2
static inline __half operator-(__half a) { return __hneg(a); }

#define EDGETUNE_COMPARE(NAME, SIGN)                                                                                   \
    static inline bool NAME(__half a, __half b) { return __half2float(a) SIGN __half2float(b); }                       \
    static inline bool operator SIGN(__half a, __half b) { return NAME(a, b); }
EDGETUNE_COMPARE(__heq, ==)
EDGETUNE_COMPARE(__hne, !=)
EDGETUNE_COMPARE(__hlt, <)
EDGETUNE_COMPARE(__hle, <=)
EDGETUNE_COMPARE(__hgt, >)
EDGETUNE_COMPARE(__hge, >=)
#undef EDGETUNE_COMPARE
static inline __half __hmax(__half a, __half b) { return __hisnan(a) ? b : __hisnan(b) ? a : __half(fmaxf(a, b)); }
static inline __half __hmin(__half a, __half b) { return __hisnan(a) ? b : __hisnan(b) ? a : __half(fminf(a, b)); }
static inline __half2 __hmax2(__half2 a, __half2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
static inline __half2 __hmin2(__half2 a, __half2 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }

#define EDGETUNE_UNARY(NAME, FUNCTION)                                                                                 \
    static inline __half h##NAME(__half a) { return __half(FUNCTION(__half2float(a))); }                               \
    static inline __half2 h2##NAME(__half2 a) { return {h##NAME(a.x), h##NAME(a.y)}; }
EDGETUNE_UNARY(sqrt, sqrtf)
EDGETUNE_UNARY(rsqrt, edgetune_rsqrt)
EDGETUNE_UNARY(rcp, 1.0f /)
EDGETUNE_UNARY(exp, expf)
EDGETUNE_UNARY(exp2, exp2f)
EDGETUNE_UNARY(log, logf)
EDGETUNE_UNARY(log2, log2f)
EDGETUNE_UNARY(sin, sinf)
EDGETUNE_UNARY(cos, cosf)
EDGETUNE_UNARY(tanh, tanhf)
EDGETUNE_UNARY(floor, floorf)
EDGETUNE_UNARY(ceil, ceilf)
EDGETUNE_UNARY(trunc, truncf)
EDGETUNE_UNARY(rint, nearbyintf)
#undef EDGETUNE_UNARY
