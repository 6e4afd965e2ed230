"""Names and instructions that CUDA C itself defines, none of which hides an index.

    out[blockIdx.x] = __ldg(p)                                 names without a definition in the file
    asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(d) : ...)      harmless
    asm("mov.u32 %0, %%laneid;" : "=r"(d))                     keeps its meaning where threads keep their places
    asm("mov.u32 %0, %%smid;" : "=r"(d))                       reads another special register: refused
    asm volatile("bar.sync 1, 64;")                            waits: refused

A name that is neither here nor defined in the parsed files may be a macro or a function of a header that was not found;
a kernel that uses one is refused.

Sources: CUDA C++ Programming Guide (built-in variables, vector types, intrinsics, atomic and warp functions, wmma),
CUDA Math API (mathematical, integer and half-precision functions), Parallel Thread Execution ISA (instructions), C and
C++ standards (keywords, limits).
"""

from __future__ import annotations

import re

from edgetune.stages.elastic.source.syntax import Node, find, has, text_of


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


BLOCK_INDICES = frozenset({"blockIdx", "gridDim"})
THREAD_INDICES = frozenset({"threadIdx", "blockDim"})
INDICES = BLOCK_INDICES | THREAD_INDICES

BARRIERS = frozenset({"__syncthreads", "__syncthreads_count", "__syncthreads_and", "__syncthreads_or"})
VOTE_BARRIERS = BARRIERS - {"__syncthreads"}

WARP = frozenset({
    "__syncwarp", "__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync", "__shfl", "__shfl_up",
    "__shfl_down", "__shfl_xor", "__all_sync", "__any_sync", "__ballot_sync", "__all", "__any", "__ballot",
    "__activemask", "__match_any_sync", "__match_all_sync", "__reduce_add_sync", "__reduce_min_sync",
    "__reduce_max_sync", "__reduce_and_sync", "__reduce_or_sync", "__reduce_xor_sync", "warpSize", "__lanemask_lt",
    "__lanemask_le", "__lanemask_gt", "__lanemask_ge", "__lanemask_eq", "edgetune_cg_reduce",
})  # fmt: skip

TENSOR_CORE = frozenset({"wmma", "nvcuda", "load_matrix_sync", "store_matrix_sync", "mma_sync", "fill_fragment"})

GRID_SYNC = frozenset({"this_grid", "this_multi_grid", "grid_group", "multi_grid_group"})
CLUSTER = frozenset({
    "__cluster_dims__", "__block_size__", "clusterIdx", "clusterDim", "clusterGridDim", "blockIdxInCluster",
    "clusterRelativeBlockIdx", "clusterRelativeBlockRank", "cluster_group", "this_cluster",
})  # fmt: skip
LINEAR_THREAD = "threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)"
"""The rank of a thread in its block, by which CUDA divides a block into warps."""
READ_GROUPS = frozenset({
    "cooperative_groups", "this_thread_block", "thread_block", "tiled_partition", "thread_block_tile", "thread_group",
})  # fmt: skip
"""Words of groups that are read as builtins, where every use is known."""
GROUPS = READ_GROUPS | {"coalesced_threads", "coalesced_group", "labeled_partition", "binary_partition", "invoke_one"}
GROUP_PREFIX = "edgetune_cg_"
"""Of the words that stand for those of the library while a source is read: see ``group_words``."""
ASYNC = frozenset({
    "memcpy_async", "make_pipeline", "pipeline", "pipeline_consumer_wait_prior", "pipeline_shared_state",
    "pipeline_role", "mbarrier_t", "arrive_and_wait", "barrier_arrive_tx", "cp_async_bulk", "CUtensorMap",
})  # fmt: skip
THREAD_COPIES = frozenset({
    "memcpy_async", "make_pipeline", "pipeline", "pipeline_consumer_wait_prior", "__pipeline_memcpy_async",
    "__pipeline_commit", "__pipeline_wait_prior",
})  # fmt: skip
"""Words of copies that may be those of one thread: see ``async_copies``."""
_ASYNC = re.compile(r"__pipeline_\w+|__mbarrier_\w+|__cp_async\w*|cp_async\w*")
_CLUSTER = re.compile(r"__cluster\w*|\w*clusterlaunchcontrol\w*")
_NAMED_BARRIER = re.compile(r"__barrier_sync\w*|__nv_bar\w*|__named_barrier\w*")
_LAUNCHES = re.compile(
    r"cu(da)?(Launch|Graph|Stream|Event|Mem|Thread|Ctx|(Device|Grid)\w*Synchronize|GetParameterBuffer|Trigger|CG)\w*"
)
"""Functions that launch kernels or copies, or wait for some."""
_RUNTIME_NAMES = re.compile(
    r"cuda([A-Z]\w*_t|Error([A-Z]\w*)?|Success|Malloc|Free|GetLastError|PeekAtLastError|GetErrorString|GetErrorName"
    r"|(Texture)?(Read|Filter|Address)Mode\w*|BoundaryMode\w+|TextureType\w+|Pos"
    r"|Extent)|CU(tex|surf)Object"
)
_COMPLEX = re.compile(
    r"(make_)?cu(Complex|DoubleComplex|FloatComplex)|cu(C[a-z]+f?|Real|Imag)|cuDouble\w+|cuFloat\w+|cuComplex\w+"
    r"|cufft(Double)?(Complex|Real)"
)
_CURAND = re.compile(
    r"curand(State((XORWOW|MRG32k3a|Philox4_32_10|(Scrambled)?Sobol(32|64))?(_t)?)|DirectionVectors(32|64)_t|4"
    r"|_init|_poisson4?|_(uniform|normal|log_normal)[24]?(_double)?)?|skipahead(_(sub)?sequence)?"
)
"""Generators of which each thread has its own; those whose state a block shares wait for its threads."""
_CONSTANTS = re.compile(
    r"CUDART_(INF|NAN|MIN_DENORM|NEG_ZERO|ZERO|ONE|SQRT_HALF|SQRT_TWO|THIRD|PIO4|PIO2|3PIO4|2_OVER_PI|PI|L2E|L2T|LG2"
    r"|LGE|LN2|LNT|LNPI)(_F)?|CUDART_MAX_NORMAL_F"
)

WAITING = frozenset({"__nanosleep"})
"""Only code that waits sleeps."""
POLLING = _words("__ldcg __ldcv __ldlu __ldcs")
"""Functions whose value may change from one call to the next, because another thread writes."""
CLOCKS = _words("clock clock64 __clock __clock64 __globaltimer")
"""Functions whose value changes from one call to the next by itself."""


def danger(word: str) -> str | None:
    """Return the code for which a kernel that holds this name is refused, or ``None``."""
    tables = (("grid-sync", GRID_SYNC), ("cluster", CLUSTER), ("cooperative-groups", GROUPS), ("async-barrier", ASYNC),
              ("spin-wait", WAITING))  # fmt: skip
    for code, table in tables:
        if word in table:
            return code
    patterns = (("cluster", _CLUSTER), ("async-barrier", _ASYNC), ("named-barrier", _NAMED_BARRIER))
    for code, pattern in patterns:
        if pattern.fullmatch(word):
            return code
    if _LAUNCHES.fullmatch(word) and not _RUNTIME_NAMES.fullmatch(word):
        return "dynamic-parallelism"
    return None


KEYWORDS = _words("""
    alignas alignof and asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl concept
    const consteval constexpr constinit const_cast continue decltype default delete do double dynamic_cast else enum
    explicit export extern false float for friend goto if inline int long mutable namespace new noexcept not nullptr
    operator or private protected public register reinterpret_cast requires return short signed sizeof static
    static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename union
    unsigned using virtual void volatile wchar_t while xor
    __device__ __host__ __global__ __shared__ __constant__ __managed__ __grid_constant__ __restrict__ __restrict
    restrict __forceinline__ __noinline__ __inline__ __launch_bounds__ __maxnreg__ __align__ __attribute__ __asm__
    __volatile__ _Pragma __extension__ __int128 __local__ __builtin_align__ defined once unroll
""")

VECTORS = re.compile(r"(u?(char|short|int|long|longlong)|float|double)[1-4]")
"""Vector types; their functions have ``make_`` in front."""
_MATH = _words("""
    abs labs llabs fabs fmod remainder remquo fma fmax fmin fdim nan exp exp2 exp10 expm1 log log10 log2 log1p logb
    sqrt cbrt hypot pow sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc tgamma lgamma ceil
    floor trunc round lround llround rint lrint llrint nearbyint frexp ldexp modf scalbn scalbln ilogb nextafter
    copysign signbit isnan isinf isfinite isnormal rsqrt rcbrt sincos sincospi sinpi cospi erfinv erfcinv erfcx
    normcdf normcdfinv j0 j1 jn y0 y1 yn cyl_bessel_i0 cyl_bessel_i1 norm3d norm4d rnorm3d rnorm4d norm rnorm rhypot
    min max umin umax llmin llmax ullmin ullmax fdividef
""")
_NAMES = _words("""
    swap forward move get tuple pair numeric_limits
    INFINITY NAN HUGE_VAL HUGE_VALF M_PI M_PI_2 M_PI_4 M_1_PI M_2_PI M_E M_LN2 M_LN10 M_LOG2E M_LOG10E M_SQRT2
    M_SQRT1_2 M_2_SQRTPI NULL RAND_MAX EOF CHAR_BIT UINT_MAX INT_MAX INT_MIN LONG_MAX LONG_MIN ULONG_MAX LLONG_MAX
    LLONG_MIN ULLONG_MAX SHRT_MAX SHRT_MIN USHRT_MAX CHAR_MAX CHAR_MIN UCHAR_MAX SCHAR_MAX SCHAR_MIN SIZE_MAX
    INT8_MAX INT16_MAX INT32_MAX INT64_MAX INT8_MIN INT16_MIN INT32_MIN INT64_MIN UINT8_MAX UINT16_MAX UINT32_MAX
    UINT64_MAX FLT_MAX FLT_MIN FLT_EPSILON DBL_MAX DBL_MIN DBL_EPSILON
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t ssize_t ptrdiff_t intptr_t uintptr_t
    uint uchar ushort ulong uint3 dim3 std half half2 __half __half2 nv_bfloat16 nv_bfloat162 __nv_bfloat16
    __nv_bfloat162 __nv_fp8_e4m3 __nv_fp8_e5m2 nullptr_t int_fast32_t uint_fast32_t clock_t
    printf assert memcpy memset memcmp malloc free strlen clock clock64 texture surface
    integral_constant true_type false_type enable_if enable_if_t is_same is_same_v conditional conditional_t decay_t
    remove_reference_t is_floating_point is_integral infinity quiet_NaN lowest epsilon array size_of
    __CUDA_ARCH__ __CUDACC__ __cplusplus __FILE__ __LINE__ __func__ __FUNCTION__
    __half2float __float2half fragment matrix_a matrix_b accumulator row_major col_major mem_row_major
    mem_col_major precision tf32 threadfence layout_t __float_to_tf32
    cuda thread_scope_thread aligned_size_t
""")
_INTRINSICS = re.compile(
    r"__(u?(sad|hadd|rhadd|mulhi|mul24|mul64hi)|[su]?mul\w*|f?add\w*|f?sub\w*|f?div\w*"
    r"|d(add|sub|mul|div|sqrt|rcp|ma|)_?\w*|f\w+_r[nduz]|fdividef|frcp\w*|fsqrt\w*|frsqrt\w*|fmaf\w*|saturatef"
    r"|(sin|cos|tan|exp|exp10|log|log2|log10|pow|sincos|tanh)f|clz(ll)?|ffs(ll)?|popc(ll)?|brev(ll)?|byte_perm|fns"
    r"|(float|double|half|int|uint|ll|ull|short|ushort|hiloint|low|high|bfloat16|lows|highs|char)s?\w*2\w+|dp[24]a\w*"
    r"|funnelshift_\w+|float_as_\w+|int_as_\w+|uint_as_\w+|longlong_as_\w+|double_as_\w+|half_as_\w+|short_as_\w+"
    r"|ushort_as_\w+|h[a-z]+\w*|v[a-z]+[24]|ld(g|cg|ca|cs|lu|cv)|st(wb|cg|cs|wt)|threadfence\w*|syncthreads|trap|brkpt"
    r"|prof_trigger|isnan\w*|isinf\w*|finite\w*|assume|builtin_(expect|assume|unreachable|nanf?|inff?|huge_valf?)|nv_\w+|bfloat16\w*|viadd\w*|vimax\w*|vimin\w*"
    r"|is(Shared|Global|Local|Constant)|cvta_\w+)"
)
_TEXTURES = re.compile(
    r"tex((1D|2D|3D|Cubemap)(Lod|Grad)?|(1D|2D|Cubemap)Layered(Lod|Grad)?|1Dfetch|2Dgather)"
    r"|surf(1D|2D|3D|Cubemap|(1D|2D|Cubemap)Layered)(read|write)"
)
_ATOMIC = re.compile(
    r"(__)?atomic(Add|Sub|Exch|Min|Max|Inc|Dec|CAS|And|Or|Xor)(_block|_system)?|__iAtomic\w+|__fAtomic\w+"
)
_HALF = re.compile(r"h(abs|exp|exp2|exp10|log|log2|log10|sqrt|rsqrt|rcp|sin|cos|tanh|floor|ceil|trunc|rint|div)|h2\w+")


def known(word: str) -> bool:
    """Return whether CUDA C itself gives a name a meaning."""
    if word in KEYWORDS or word in _NAMES or word in INDICES or word in WARP or word in BARRIERS or word in TENSOR_CORE:
        return True
    bare = word[:-1] if word.endswith(("f", "l")) else word
    if word.startswith(GROUP_PREFIX) or word in _MATH or bare in _MATH or VECTORS.fullmatch(word.removeprefix("make_")):
        return True
    patterns = (_ATOMIC, _INTRINSICS, _HALF, _TEXTURES, _RUNTIME_NAMES, _COMPLEX, _CURAND, _CONSTANTS)
    return any(pattern.fullmatch(word) for pattern in patterns)


def complex_number(word: str) -> bool:
    """Return whether a name is one of cuComplex.h, or the same type by cuFFT's name."""
    return _COMPLEX.fullmatch(word) is not None


def atomic(word: str) -> bool:
    """Return whether a name is that of an atomic function."""
    return _ATOMIC.fullmatch(word) is not None


HEADERS = re.compile(
    r"(cuda|thrust|cub|nv|crt)/[\w./]+"
    r"|(cuda|cuda_runtime|cuda_runtime_api|device_launch_parameters|device_functions|device_atomic_functions"
    r"|driver_types|vector_types|vector_functions|builtin_types|host_defines|math_functions|math_constants|sm_\w+"
    r"|cuda_fp16|cuda_bf16|cuda_fp8|cuda_texture_types|texture_types|texture_fetch_functions|surface_functions|crt/\w+"
    r"|texture_indirect_functions|cuda_device_runtime_api|cuda_profiler_api|cuda_gl_interop|cudaGL|nvrtc|nvml|curand"
    r"|curand_kernel|cublas|cublas_v2|cusparse|cufft|cufftXt|cusolverDn|cudnn|nccl|mma|cuComplex|nvToolsExt|mpi|omp"
    r"|cooperative_groups(/\w+)*|cuda_pipeline(_\w+)?|cuda_awbarrier(_\w+)?"
    r"|assert|ctype|errno|fenv|float|inttypes|limits|locale|malloc|math|memory|setjmp|signal|stdarg|stdbool|stddef"
    r"|stdint|stdio|stdlib|string|strings|time|unistd|wchar|getopt|pthread|sched|windows|sys/\w+)\.(h|hpp)"
    r"|c(assert|ctype|errno|fenv|float|inttypes|limits|locale|math|setjmp|signal|stdarg|stddef|stdint|stdio|stdlib"
    r"|string|time|wchar|tuple)|algorithm|any|array|atomic|bit|bitset|chrono|codecvt|compare|complex|concepts|deque"
    r"|exception|execution|filesystem|forward_list|fstream|functional|future|initializer_list|iomanip|ios|iosfwd"
    r"|iostream|istream|iterator|limits|list|locale|map|memory|mutex|new|numbers|numeric|optional|ostream|queue|random"
    r"|ranges|ratio|regex|set|shared_mutex|span|sstream|stack|stdexcept|streambuf|string|string_view|system_error"
    r"|thread|tuple|type_traits|typeindex|typeinfo|unordered_map|unordered_set|utility|valarray|variant|vector|version"
)
"""Headers of CUDA, C and C++: they are not read, and hide an index or a wait only behind names of this file."""


_HARMLESS = _words("""
    add sub mul mad mul24 mad24 sad div rem abs neg min max popc clz bfind fns brev bfe bfi szext bmsk dp4a dp2a
    addc subc madc fma rcp sqrt rsqrt sin cos lg2 ex2 tanh copysign testp set setp selp slct and or xor not cnot lop3
    shf shl shr mov prmt ld ldu st cvt cvta prefetch prefetchu pack isspacep vadd vsub vabsdiff vmin vmax vshl vshr
    vmad vset vadd2 vadd4 vsub2 vsub4 vavrg2 vavrg4 vabsdiff2 vabsdiff4 vmin2 vmin4 vmax2 vmax4 vset2 vset4
""")
_WARP = frozenset({"mma", "wmma", "ldmatrix", "stmatrix", "movmatrix", "shfl", "vote", "match", "redux", "activemask"})
_WAITING = re.compile(r"\.(volatile|relaxed|acquire|release|acq_rel|mmio)\b|\bld\S*\.(cv|cg)\b")
_REGISTER = re.compile(r"%+([A-Za-z_]\w*)")
_OF_LANES = _words("laneid lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt")
"""Special registers that are the same wherever a thread has the same place in its block; with ``%`` before them."""
_STRINGS = ("string_literal", "raw_string_literal", "concatenated_string")


def wrong_with(node: Node) -> str | None:
    """Return the instruction for which inline assembly is refused, or ``None`` where all of it is harmless.

    Args:
        node: A ``gnu_asm_expression``.
    """
    code = node.child_by_field_name("assembly_code")
    if code is None or code.type not in _STRINGS or has(code, "identifier"):
        return "its text is not a plain string"
    if any(text_of(each) == "goto" for each in node.children):
        return "asm goto"
    return next((each for each in _instructions(code) if not _harmless(each)), None)


def loads(node: Node) -> bool:
    """Return whether inline assembly reads memory that may change while a kernel runs."""
    code = node.child_by_field_name("assembly_code")
    return any(_opcode(each) == "ld" and ".nc" not in each for each in _instructions(code))


def of_warps(node: Node) -> bool:
    """Return whether inline assembly depends on a thread's place in its warp, or on the others of the warp."""
    code = node.child_by_field_name("assembly_code")
    return any(_opcode(each) in _WARP or _REGISTER.search(each) for each in _instructions(code))


def _instructions(code: Node | None) -> list[str]:
    literals = list(find(code, "string_literal", "raw_string_literal"))
    text = "".join(re.sub(r'^\w*"|"$', "", text_of(literal)) for literal in literals)
    text = re.sub(r"//.*?(\\n|\n|$)", " ", text)  # a comment ends with its line
    text = re.sub(r"\\[ntr]", " ", text).replace("\\\n", " ").replace("{", ";").replace("}", ";")
    return [" ".join(each.split()) for each in text.split(";") if each.strip()]


def _opcode(instruction: str) -> str:
    bare = re.sub(r"^@!?%?\w+\s+", "", instruction)
    return re.split(r"[.\s]", bare, maxsplit=1)[0]


def _harmless(instruction: str) -> bool:
    if (
        not _OF_LANES.issuperset(_REGISTER.findall(instruction))
        or _WAITING.search(instruction)
        or ":" in instruction.replace("::", "")
        or "\\" in instruction  # of a character that is written as a number
    ):
        return False
    if instruction.startswith(".reg"):
        return True
    return _opcode(instruction) in _HARMLESS or _opcode(instruction) in _WARP
