__global__ void where(unsigned int *out) {
    unsigned int sm;
    asm("mov.u32 %0, %%smid;" : "=r"(sm));
    out[blockIdx.x] = sm;
}
