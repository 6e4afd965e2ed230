"""Headers that kernels include as a matter of course, for a compiler that has none.

    #include <cuda_runtime.h>    nothing: NVRTC knows all of it by itself
    #include <stdint.h>          int32_t and its relatives, which NVRTC does not know
    #include <cuda_fp16.h>       from the CUDA toolkit, where one is installed

Values of limits: ISO C, for the types of every CUDA platform (int 32 bits, long 64, IEEE 754 float and double).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_STDINT = """#pragma once
typedef signed char int8_t; typedef unsigned char uint8_t; typedef short int16_t; typedef unsigned short uint16_t;
typedef int int32_t; typedef unsigned int uint32_t; typedef long long int64_t; typedef unsigned long long uint64_t;
typedef long long intptr_t; typedef unsigned long long uintptr_t;
typedef int64_t intmax_t; typedef uint64_t uintmax_t;
typedef int8_t int_least8_t; typedef uint8_t uint_least8_t; typedef int16_t int_least16_t;
typedef uint16_t uint_least16_t; typedef int32_t int_least32_t; typedef uint32_t uint_least32_t;
typedef int64_t int_least64_t; typedef uint64_t uint_least64_t;
#define INT8_MAX 127
#define INT8_MIN (-128)
#define UINT8_MAX 255
#define INT16_MAX 32767
#define INT16_MIN (-32768)
#define UINT16_MAX 65535
#define INT32_MAX 2147483647
#define INT32_MIN (-2147483647 - 1)
#define UINT32_MAX 4294967295u
#define INT64_MAX 9223372036854775807ll
#define INT64_MIN (-9223372036854775807ll - 1)
#define UINT64_MAX 18446744073709551615ull
#define SIZE_MAX 18446744073709551615ull
"""
_LIMITS = """#pragma once
#define CHAR_BIT 8
#define SCHAR_MAX 127
#define SCHAR_MIN (-128)
#define UCHAR_MAX 255
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define LONG_MAX 9223372036854775807l
#define LONG_MIN (-9223372036854775807l - 1)
#define ULONG_MAX 18446744073709551615ul
#define LLONG_MAX 9223372036854775807ll
#define LLONG_MIN (-9223372036854775807ll - 1)
#define ULLONG_MAX 18446744073709551615ull
"""
_FLOAT = """#pragma once
#define FLT_EPSILON 1.1920928955078125e-7f
#define FLT_MAX 3.40282346638528859812e+38f
#define FLT_MIN 1.17549435082228750797e-38f
#define FLT_DIG 6
#define FLT_MANT_DIG 24
#define DBL_EPSILON 2.2204460492503131e-16
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_DIG 15
#define DBL_MANT_DIG 53
"""
_MATH = """#pragma once
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define HUGE_VALF INFINITY
#define HUGE_VAL __longlong_as_double(0x7ff0000000000000ll)
#define M_E 2.7182818284590452354
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
"""
_CMATH = """#pragma once
#include <math.h>
namespace std {
using ::abs; using ::acos; using ::asin; using ::atan; using ::atan2; using ::ceil; using ::cos; using ::cosh;
using ::exp; using ::exp2; using ::fabs; using ::floor; using ::fma; using ::fmax; using ::fmin; using ::fmod;
using ::log; using ::log10; using ::log2; using ::pow; using ::round; using ::sin; using ::sinh; using ::sqrt;
using ::tan; using ::tanh; using ::trunc; using ::isnan; using ::isinf; using ::isfinite;
}
"""
_CONSTANTS = """#pragma once
#define CUDART_INF_F __int_as_float(0x7f800000)
#define CUDART_NAN_F __int_as_float(0x7fffffff)
#define CUDART_MIN_DENORM_F __int_as_float(0x00000001)
#define CUDART_MAX_NORMAL_F __int_as_float(0x7f7fffff)
#define CUDART_NEG_ZERO_F __int_as_float(0x80000000)
#define CUDART_PI_F 3.141592654f
#define CUDART_INF __longlong_as_double(0x7ff0000000000000ll)
#define CUDART_PI 3.1415926535897931e+0
"""
_NOTHING = (
    "cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "device_launch_parameters.h", "device_functions.h",
    "device_atomic_functions.h", "math_functions.h", "vector_types.h", "vector_functions.h", "builtin_types.h",
    "sm_20_intrinsics.h", "sm_30_intrinsics.h", "stdio.h", "cstdio", "stdlib.h", "cstdlib", "string.h", "cstring",
    "stddef.h", "cstddef", "assert.h", "cassert", "time.h", "ctime",
)  # fmt: skip
"""What NVRTC knows of these by itself is all that a kernel can use of them."""

_ALWAYS = """#pragma once
#include <cmath>
#include <limits.h>
#include <stdint.h>
typedef unsigned short ushort; typedef unsigned int uint; typedef unsigned long ulong;
"""
ALWAYS = "edgetune_always.h"
"""What nvcc includes before every source, as far as kernels see it: files rely on it."""

STAND_INS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(_NOTHING, "#pragma once\n"),
        **dict.fromkeys(("stdint.h", "cstdint", "inttypes.h", "cinttypes"), _STDINT),
        **dict.fromkeys(("limits.h", "climits"), _LIMITS),
        **dict.fromkeys(("float.h", "cfloat"), _FLOAT),
        "math.h": _MATH,
        "cmath": _CMATH,
        "math_constants.h": _CONSTANTS,
        ALWAYS: _ALWAYS,
    }
)
"""By the name that they are included by."""


def toolkit_folder() -> str | None:
    """Return the folder with the headers of the CUDA toolkit; ``None`` where none is installed."""
    try:
        from cuda import pathfinder
    except ImportError:
        return None
    find = getattr(pathfinder, "find_nvidia_header_directory", None)  # of pathfinder 1.2 and later
    folder: str | None = find("cudart") if find else None
    return folder
