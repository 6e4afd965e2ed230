// Types, functions and constants of the libraries of CUDA: complex numbers and constants.
// launch spectrum grid=5 block=16 y=float32[160]:zero x=float32[160] scale=float32:2
// launch doubled grid=5 block=16 y=float64[160]:zero x=float64[160]
#include <cufftXt.h>
#include <cuComplex.h>
#include <math_constants.h>

__global__ void spectrum(cufftComplex *y, const cuComplex *x, cufftReal scale) {
    const unsigned int at = blockIdx.x * blockDim.x + threadIdx.x;
    const cuComplex turned = cuCmulf(x[at], make_cuComplex(cosf(CUDART_PIO2_F), CUDART_ONE_F));
    y[at] = cuCaddf(cuCdivf(turned, make_cuFloatComplex(scale, 1.0f)), cuConjf(x[at]));
    if (cuCabsf(y[at]) >= CUDART_INF_F) y[at].x = CUDART_ZERO_F;
}

__global__ void doubled(cufftDoubleComplex *y, const cuDoubleComplex *x) {
    const unsigned int at = blockIdx.x * blockDim.x + threadIdx.x;
    y[at] = cuCfma(x[at], make_cuDoubleComplex(CUDART_SQRT_TWO, CUDART_PI), cuCsub(x[at], x[0]));
    y[at].x += cuCreal(cuComplexFloatToDouble(cuComplexDoubleToFloat(x[at]))) + cuCimag(x[at]);
}
