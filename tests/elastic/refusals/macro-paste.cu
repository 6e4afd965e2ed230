#define PASTE(a, b) a##b

__global__ void scale(float *x) {
    x[PASTE(block, Idx).x] *= 2.0f;
}
