// Complex numbers for the CPU: types and functions of cuComplex.h, whose rounding they need not have.
#pragma once

#define EDGETUNE_COMPLEX(NAME, PAIR, REAL, SUFFIX)                                                                     \
    typedef PAIR NAME;                                                                                                 \
    inline NAME make_##NAME(REAL x, REAL y) { return {x, y}; }                                                         \
    inline REAL cuCreal##SUFFIX(NAME a) { return a.x; }                                                                \
    inline REAL cuCimag##SUFFIX(NAME a) { return a.y; }                                                                \
    inline NAME cuConj##SUFFIX(NAME a) { return {a.x, -a.y}; }                                                         \
    inline NAME cuCadd##SUFFIX(NAME a, NAME b) { return {a.x + b.x, a.y + b.y}; }                                      \
    inline NAME cuCsub##SUFFIX(NAME a, NAME b) { return {a.x - b.x, a.y - b.y}; }                                      \
    inline NAME cuCmul##SUFFIX(NAME a, NAME b) { return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }              \
    inline NAME cuCfma##SUFFIX(NAME a, NAME b, NAME c) { return cuCadd##SUFFIX(cuCmul##SUFFIX(a, b), c); }             \
    inline REAL cuCabs##SUFFIX(NAME a) { return hypot##SUFFIX(a.x, a.y); }                                             \
    inline NAME cuCdiv##SUFFIX(NAME a, NAME b) {                                                                       \
        const REAL scale = fabs##SUFFIX(b.x) + fabs##SUFFIX(b.y), x = b.x / scale, y = b.y / scale;                    \
        const REAL square = scale * (x * x + y * y);                                                                   \
        return {(a.x * x + a.y * y) / square, (a.y * x - a.x * y) / square};                                           \
    }
EDGETUNE_COMPLEX(cuFloatComplex, float2, float, f)
EDGETUNE_COMPLEX(cuDoubleComplex, double2, double, )
#undef EDGETUNE_COMPLEX

typedef cuFloatComplex cuComplex;
inline cuComplex make_cuComplex(float x, float y) { return {x, y}; }
inline cuDoubleComplex cuComplexFloatToDouble(cuComplex a) { return {a.x, a.y}; }
inline cuComplex cuComplexDoubleToFloat(cuDoubleComplex a) {
    return {static_cast<float>(a.x), static_cast<float>(a.y)};
}
