namespace {
#ifdef FAST
__global__ void clear(float *x) {
    x[blockIdx.x] = 0.0f;
}
#endif
}
