__global__ void turn(float *x) {
    auto own = []() { return threadIdx.x; };
    x[blockIdx.x * 64 + own()] = 1.0f;
}
