// Kernels that are hard to take apart at their barriers, each with its launches.

struct Window {
    int from, to;
    float weights[4];
};

#define TURNED(k) held[count - 1 - (k)]
#define HALF(k) ((k) / 2)
#define COUNT 3
__constant__ int four = 4;

__device__ int own_place(int from) { return from + blockIdx.x * blockDim.x + threadIdx.x; }

// launch vote_in_loop grid=3 block=32 x=int32[96] rounds=int32[3]:zero
__global__ void vote_in_loop(int *x, int *rounds) {
    __shared__ int held[32], go_on;
    int t = threadIdx.x, mine = x[own_place(0)], seen = 0;
    if (t == 0) go_on = 1;
    __syncthreads();
    while (go_on && seen < 9) {
        for (int by = 16; by > 0; by >>= 1) {
            held[t] = mine;
            __syncthreads();
            mine += held[t ^ by] & by;
            __syncthreads();
        }
        if (t == 5 && mine % 4 == 1) go_on = 0;
        ++seen;
        __syncthreads();
    }
    x[own_place(0)] = mine;
    if (t == 31) rounds[blockIdx.x] = seen;
}

// Threads return from inside of a loop, each in its own round; its condition is read from memory that they change.
// launch return_in_loop grid=3 block=32 x=int32[96]:0..9 left=int32[3]:4..9 out=int32[96]:zero
__global__ void return_in_loop(const int *x, int *left, int *out) {
    __shared__ int held[32], rounds;
    int t = threadIdx.x, i = blockIdx.x * 32 + t, sum = 0;
    held[t] = 0;
    if (t == 0) rounds = left[blockIdx.x];
    __syncthreads();
    while (rounds > 0) {
        held[t] = x[i] + rounds;
        __syncthreads();
        sum += held[(t + 1) % 32];
        out[i] = sum;
        if (x[i] == rounds && t != 0) return;
        __syncthreads();
        if (t == 0) --rounds;
        __syncthreads();
    }
    out[i] += 1000;
}

// launch forever grid=2 block=16 x=int32[32]:1..6 out=int32[32]:zero
__global__ void forever(const int *x, int *out) {
    __shared__ int held[16];
    int i = blockIdx.x * 16 + threadIdx.x;
    for (int round = 0;; ++round) {
        held[threadIdx.x] = round * x[i];
        __syncthreads();
        out[i] += held[threadIdx.x ^ 1];
        if (round == x[i]) return;
        __syncthreads();
    }
}

// launch mixed_header grid=2 block=32 out=int32[64]:zero in=int32[400] n=int32:5
__global__ void mixed_header(int *out, const int *in, int n) {
    __shared__ int held[32];
    int sum = 0;
    for (int s = 0, i = threadIdx.x + blockIdx.x; s < n; ++s, i += 7 + s) {
        held[threadIdx.x] = in[i];
        __syncthreads();
        sum = sum * 3 + held[(threadIdx.x + s) & 31] + i;
        __syncthreads();
    }
    out[blockIdx.x * 32 + threadIdx.x] = sum;
}

// launch found_bound grid=3 block=24 out=int32[72] n=int32:19
__global__ void found_bound(int *out, int n) {
    __shared__ int held[24];
    const int count = blockDim.x;
    int bits = 0, t = threadIdx.x, base = blockIdx.x * 24;
    held[t] = out[base + t];
    while ((1 << bits) < n) ++bits;
    int steps = bits, odd;
    if (n > 10) {
        steps = bits + COUNT;
        held[t] += 2;
    }
    odd = steps & 1;
    __syncthreads();
    for (int s = odd; s < steps; s += HALF(four)) {
        int other = TURNED(t);
        __syncthreads();
        held[t] = other + s;
        __syncthreads();
    }
    out[base + t] = held[t] * 10 + steps;
}

// launch arrays grid=2 block=32 out=float32[64]:zero in=float32[600]
__global__ void __launch_bounds__(32) arrays(float *out, const float *in) {
    const int W = 3;
    __shared__ float held[32];
    const float table[] = {0.5f, -1.0f, 2.0f};
    float sums[2][W] = {{1.0f, 2.0f}, {3.0f}}, zeros[W] = {}, *best = zeros;
    int t = threadIdx.x, order[4] = {3, t, 1, 0};
    for (int round = 0; round < 3; ++round) {
        float fresh[W] = {in[t], in[t + round], in[2 * t]};
        held[t] = fresh[round % W];
        __syncthreads();
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < W; ++j) sums[i][j] += fresh[j] * held[order[i + round] & 31] * table[j];
        best[round] += held[31 - t];
        if (sums[0][round] > sums[1][round]) best = sums[1];
        __syncthreads();
    }
    out[blockIdx.x * 32 + t] = sums[0][0] + 2 * sums[1][1] + 3 * sums[0][2] + zeros[1] + best[2];
}

// launch parameters grid=3 block=32 out=int32[96]:zero in=int32[500] n=int32:4 skip=int32:2
// launch parameters grid=3 block=32 out=int32[96]:zero in=int32[500] n=int32:0 skip=int32:5
__global__ void parameters(int *out, const int *in, int n, int skip) {
    __shared__ int held[32];
    out += blockIdx.x * blockDim.x + threadIdx.x;
    in += threadIdx.x;
    skip += threadIdx.x & 1;
    while (n-- > 0) {
        held[threadIdx.x] = *in;
        in += skip;
        __syncthreads();
        *out += held[threadIdx.x ^ 3] + n;
        __syncthreads();
    }
    *out += skip;
}

// launch struct_parameter grid=3 block=32 out=float32[96]:zero window=int32:1,4+float32:0.5,1,2,3
__global__ void struct_parameter(float *out, Window window) {
    __shared__ float held[32];
    int t = threadIdx.x;
    window.weights[t % 4] += t;
    Window copy = window;
    for (int i = window.from; i < window.to; ++i) {
        copy.weights[i] -= 1;
        held[t] = copy.weights[i] + window.weights[0];
        __syncthreads();
        copy.from += held[31 - t];
        __syncthreads();
    }
    out[blockIdx.x * 32 + t] = copy.from + copy.weights[2];
}

// launch branches grid=2 block=32 x=int32[64] mode=int32:0
// launch branches grid=2 block=32 x=int32[64] mode=int32:1
// launch branches grid=2 block=32 x=int32[64] mode=int32:2
__global__ void branches(int *x, int mode) {
    __shared__ int held[32];
    __shared__ int flag;
    int t = threadIdx.x, i = own_place(0), v = x[i];
    held[t] = v;
    if (t == 3) flag = v & 1;
    __syncthreads();
    if (mode == 0)
        __syncthreads();
    else if (mode == 1) {
        v += held[31 - t];
        __syncthreads();
        held[t] = v;
        __syncthreads();
    } else {
        v -= 1;
    }
    if (flag) {
        v += held[t ^ 1];
        __syncthreads();
        held[t] = v;
    } else {
        v -= held[t ^ 2];
        __syncthreads();
        held[t] = -v;
    }
    __syncthreads();
    x[i] = held[(t + 5) & 31] + v;
}

// launch loops grid=2 block=32 x=int32[64] n=int32:3
__global__ void loops(int *x, int n) {
    __shared__ int held[32];
    int t = threadIdx.x, v = x[own_place(0)], left = n;
#pragma unroll 1
    do {
        held[t] = v;
        __syncthreads();
        v += held[t ^ 1];
        __syncthreads();
    } while (--left > 0);
    do {
        held[t] = v;
        __syncthreads();
        int biggest = 0;
        for (int k = 0; k < 32; ++k) {
            if (held[k] < 0) continue;
            if (biggest > 5000) break;
            biggest = max(biggest, held[k]);
        }
        v = v / 2 + 1;
        left = biggest;
        __syncthreads();
    } while (left > 10);
    {
        int t2 = t ^ 4;
        held[t] = v;
        __syncthreads();
        {
            v = held[t2] + left;
        }
    }
    x[own_place(0)] = v;
}

// launch siblings grid=2 block=27 x=int32[54] n=int32:9
__global__ void siblings(int *x, int n) {
    __shared__ int held[27];
    using number = int;
    typedef int other_number;
    static_assert(sizeof(number) == 4, "an int");
    if (static_cast<int>(blockIdx.x) * 2 > n) return;
    int t = threadIdx.x;
    for (int i = 0; i < 2; ++i) {
        number v = x[blockIdx.x * 27 + t] + i;
        held[t] = v;
        __syncthreads();
        x[blockIdx.x * 27 + t] = v + held[26 - t];
        __syncthreads();
    }
    for (int i = 0; i < 2; ++i) {
        other_number v = x[blockIdx.x * 27 + t] * 2;
        held[t] = v - i;
        for (int v = 0; v < 2; ++v) held[t] += v;
        __syncthreads();
        x[blockIdx.x * 27 + t] = v - held[(t + 1) % 27];
        __syncthreads();
    }
}

// Divides by what is zero only where all threads have returned.
// launch guarded grid=3 block=32 x=int32[96] n=int32:3 by=int32:0
// launch guarded grid=3 block=32 x=int32[96] n=int32:70 by=int32:7
__global__ void guarded(int *x, int n, int by) {
    __shared__ int held[32];
    int i = own_place(0);
    if (by == 0 && i >= 0 || i >= n) return;
    int tiles = 64 / by;
    held[threadIdx.x] = x[i];
    __syncthreads();
    for (int s = 0; s < tiles; s += 4) {
        x[i] += held[threadIdx.x / 2] + s;
        __syncthreads();
    }
}

// launch leave_anywhere grid=3 block=32 x=int32[96]:0..30
__global__ void leave_anywhere(int *x) {
    __shared__ int held[32];
    int t = threadIdx.x, i = blockIdx.x * 32 + t, v = x[i];
    held[t] = v;
    switch (v % 5) {
        case 0:
            x[i] = -1;
            return;
        case 1:
            for (int k = 0; k < 9; ++k)
                if (k * 2 == v) {
                    x[i] = -k;
                    return;
                }
            break;
        default:
            v += 2;
    }
    __syncthreads();
    auto more = [&](int by) {
        if (by > 3) return v;
        v += by;
        return v + 1;
    };
    held[t] = more(t & 7) + more(1);
    if (v > 20) return;
    __syncthreads();
    x[i] = v + held[t ^ 1];
}

// launch types grid=2,2 block=4,4,2 out=float64[128]:zero in=float64[128] big=int64:5000000000 small=int8:3
__global__ void types(double *out, const double *__restrict__ in, long long big, signed char small) {
    __shared__ double held[2][4][4];
    unsigned char x = threadIdx.x;
    const unsigned int y = threadIdx.y, z = threadIdx.z;
    const int i = ((blockIdx.y * gridDim.x + blockIdx.x) * 32 + (z * 4 + y) * 4) + x;
    const double *const from = in + i, *to = &in[i ^ 1];
    bool odd = i & 1;
    unsigned long long wide = big * i;
    dim3 corner(1, y, z);
    double2 pair = {from[0], *to};
    held[z][y][x] = pair.x;
    __syncthreads();
    double sum = held[corner.z ^ 1][corner.y][3 - x] + pair.y + from[0] - to[0];
    __syncthreads();
    held[z][y][x] = odd ? sum : -sum;
    __syncthreads();
    out[i] = held[z][x][y] + (double)(wide % 1000) + (small) * (x) + corner.x;
}

// launch shuffled grid=2 block=128 out=int32[256]:zero in=int32[256] n=int32:2
__global__ void shuffled(int *out, const int *in, int n) {
    __shared__ int held[4];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int v = in[own_place(0)];
    for (int round = 0; round < n; ++round) {
        for (int by = 16; by > 0; by /= 2) v += __shfl_xor_sync(0xffffffffu, v, by) >> 1;
        if (lane == 0) held[warp] = v;
        __syncwarp();
        unsigned int odd = __ballot_sync(0xffffffffu, v & 1);
        __syncthreads();
        v = held[(warp + 1) & 3] + __popc(odd) + lane;
        __syncthreads();
    }
    out[own_place(0)] = v;
}

// Whole warps have nothing to do and return in front of warp primitives.
// launch warps_leave grid=2 block=128 out=int32[8]:zero in=int32[256] rows=int32:6
__global__ void warps_leave(int *out, const int *in, int rows) {
    const int lane = threadIdx.x & 31, row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= rows) return;
    int v = in[row * 32 + lane];
    for (int by = 16; by > 0; by /= 2) v += __shfl_down_sync(0xffffffffu, v, by);
    if (lane == 0) out[row] = v;
}

// launch late_change grid=2 block=16 out=int32[32]:zero n=int32:6
__global__ void late_change(int *out, int n) {
    __shared__ int held[16];
    int from = 0, to = 1, sum = 0;
    held[threadIdx.x] = threadIdx.x;
    __syncthreads();
    for (int i = 0; i < n; ++i) {
        sum += from * held[(threadIdx.x + from) & 15];
        from = to;
        sum += from;
        to = from * 2 + i;
        sum -= to;
        if (to > 9) {
            to -= 4;
            __syncthreads();
        }
    }
    __syncthreads();
    for (int k = 0, j = from & 3; k < j; k++) {
        __syncthreads();
        held[threadIdx.x] += sum;
        __syncthreads();
        sum ^= held[15 - threadIdx.x];
    }
    out[blockIdx.x * 16 + threadIdx.x] = sum;
}

// All threads that are left go round equally often, but some return; the condition counts, and another loop depends on it.
// launch count_and_leave grid=3 block=27 x=int32[81]:0..40 n=int32:5
__global__ void count_and_leave(int *x, int n) {
    __shared__ int held[27];
    int t = threadIdx.x, i = blockIdx.x * 27 + t, k = 0;
    held[t] = 0;
    do {
        for (int j = 0; j < k; ++j) {
            held[t] = x[i] + j;
            __syncthreads();
            x[i] += held[26 - t];
            __syncthreads();
        }
        if (x[i] % 9 == k) return;
        __syncthreads();
    } while (++k < n);
    while (k-- > 2) {
        held[t] = x[i];
        __syncthreads();
        if (held[t] % 5 == 1) return;
        x[i] -= held[(t + k) % 27];
        __syncthreads();
    }
}

// All threads leave loops together, from inside of branches, and go on with them; some have returned.
// launch leave_together grid=3 block=32 x=int32[96]:0..50 n=int32:6
// launch leave_together grid=3 block=32 x=int32[96]:0..50 n=int32:2
__global__ void leave_together(int *x, int n) {
    __shared__ int held[32];
    int t = threadIdx.x, i = blockIdx.x * 32 + t, u = 0, left = n;
    held[t] = 1;
    __syncthreads();
    while (left-- > 0) {
        if (left == 3) continue;
        held[t] += x[i];
        __syncthreads();
        x[i] += held[t ^ 1];
        __syncthreads();
    }
    for (int k = 0, j = t;; ++k, j += 2) {
        if (x[i] % 11 == 4) return;
        held[t] = x[i] + j;
        __syncthreads();
        if (k > 1) {
            if (k + u > n) {
                u += k;
                break;
            }
            ++u;
        }
        x[i] ^= held[31 - t];
        __syncthreads();
    }
    do {
        if (u > 8) break;
        u += 2;
        if (u == 5) continue;
        __syncthreads();
        held[t] = x[i] + u;
        __syncthreads();
        x[i] -= held[(t + 1) & 31];
        for (int k = 0; k < 9; ++k) {
            if (x[i] > 100) break;
            if (k == 2) continue;
            x[i] += k;
        }
    } while (u < 7);
    x[i] += u;
}

// All threads return, and nobody is left to go on with a loop that would never end.
// launch nobody_left grid=2 block=32 x=int32[64] n=int32:0
// launch nobody_left grid=2 block=32 x=int32[64] n=int32:48
__global__ void nobody_left(int *x, int n) {
    __shared__ int held[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int by = n & -n; by != 1; by /= 2) {
        held[threadIdx.x] = x[i] + by;
        __syncthreads();
        x[i] -= held[threadIdx.x / 2];
        __syncthreads();
    }
}

// Declarations of many kinds whose variables live across a barrier.
// launch declared grid=2 block=16 x=float32[64]
__global__ void declared(float *x) {
    __shared__ float held[16][4];
    const int t = threadIdx.x, base = blockIdx.x * 16;
    alignas(8) float pair[2] = {x[base + t], 1.5f};
    float2 point{pair[0], x[base + t]}, other = {point.y, 2.0f};
    int const twice = 2 * t;
    const float *from[2] = {x + 32 + t, x + 48};
    char word[3] = "ab", flag = t & 1 ? word[1] : word[0];
    bool seen[2][2] = {{t > 3}, {false, t > 5}};
    float3 corner = make_float3(1, t, 2);
    for (int k = 0; k < 4; ++k) held[t][k] = pair[k & 1] + k;
    __syncthreads();
    point.x += held[15 - t][twice & 3] + from[1][t];
    other.y -= held[t][1] * flag;
    __syncthreads();
    corner.z += seen[0][0] + 2 * seen[1][1] + pair[1];
    x[base + t] = point.x + other.x + other.y + corner.y + corner.z + twice;
}
