#include "not_there.h"
extern __device__ float factor(float x);

__global__ void scale(float *x) {
    x[blockIdx.x] *= factor(2.0f);
}
