// Double precision, polynomials by a template that is given a function.
// launch doubles grid=3 block=64 out=float64[160]:zero in=float64[160] n=uint64:160
template <class F>
__device__ double horner(double x, F coefficient, int terms) {
    double sum = 0;
    for (int i = terms; i-- > 0;) sum = sum * x + coefficient(i);
    return sum;
}
__device__ double reciprocal(int i) { return 1.0 / (i + 1); }
__global__ void doubles(double *out, const double *in, unsigned long n) {
    const unsigned long i = static_cast<unsigned long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) out[i] = horner(in[i], reciprocal, 12) + rsqrt(2.0 + in[i]) - fmin(in[i], 0.25);
}
