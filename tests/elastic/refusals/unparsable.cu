#ifndef LOOP
#define LOOP for (int i = 0; i < 4; ++i)
#endif

__global__ void sums(float *x, const float *y) {
    float sum = 0.0f;
#ifdef SQUARES
    LOOP {
        sum += y[i] * y[i];
#else
    LOOP {
        sum += y[i];
#endif
    }
    x[blockIdx.x] = sum;
}
