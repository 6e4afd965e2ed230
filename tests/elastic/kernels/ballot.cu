// Each warp packs its positive numbers to the front of its part, by votes.
// launch ballot grid=3 block=64 out=float32[192]:zero counts=int32[6]:zero in=float32[192]
__global__ void ballot(float *out, int *counts, const float *in) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    float value = in[i];
    unsigned int kept = __ballot_sync(0xffffffffu, value > 0.0f);
    if (value > 0.0f) out[i - lane + __popc(kept & ((1u << lane) - 1))] = value;
    if (lane == 0) counts[i / 32] = __popc(kept) + (__ffs(kept) << 8);
}
