__global__ void scale(float *x, int n) {
    int i = GLOBAL_ID();
    if (i < n) {
        x[i] *= 2.0f;
    }
}
