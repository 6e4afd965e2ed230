// Functions that share a name call each other, or CUDA's own; a template counts down while it is compiled.
// launch overloads grid=5 block=48 out=float32[960]:zero in=float32[960] weights=float32[8] n=int32:230
inline __host__ __device__ float4 make_float4(float s) { return make_float4(s, s, s, s); }
inline __host__ __device__ float4 make_float4(float3 v) { return make_float4(v.x, v.y, v.z, 1.0f); }
inline __host__ __device__ float4 fabs(float4 v) { return make_float4(fabs(v.x), fabs(v.y), fabs(v.z), fabs(v.w)); }
inline __host__ __device__ float4 operator*(float4 a, float s) {
    return make_float4(a.x * s, a.y * s, a.z * s, a.w * s);
}
inline __host__ __device__ float4 operator*(float s, float4 a) { return a * s; }
inline __host__ __device__ void operator+=(float4 &a, float4 b) {
    a.x += b.x; a.y += b.y; a.z += b.z; a.w += b.w;
}

template <int n> __device__ float weighted(const float *w, float x) { return w[n] * x + weighted<n - 1>(w, x * 0.5f); }
template <> __device__ float weighted<-1>(const float *w, float x) { return 0.0f; }

__device__ float4 load(const float *p) { return make_float4(p[0], p[1], p[2], p[3]); }
__device__ float4 load(const float *p, int at) { return load(p + 4 * at); }

__global__ void overloads(float *out, const float *in, const float *weights, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 sum = 0.25f * fabs(load(in, i));
    sum += make_float4(weighted<5>(weights, in[i]));
    sum += make_float4(make_float3(1.0f, 2.0f, 3.0f));
    out[4 * i] = sum.x;
    out[4 * i + 1] = sum.y;
    out[4 * i + 2] = sum.z;
    out[4 * i + 3] = sum.w;
}
