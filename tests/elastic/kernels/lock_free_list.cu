// What atomics return is used only where it cannot be told: a slot for each number, whoever comes first.
// launch lock_free_list grid=4 block=32 slots=int32[64]:zero count=uint32[1]:zero in=int32[128]:1..40
__global__ void lock_free_list(int *slots, unsigned int *count, const int *in) {
    int value = in[blockIdx.x * blockDim.x + threadIdx.x];
    if (atomicCAS(&slots[value], 0, value) == 0) atomicInc(count, 1000u);
    atomicMax(&slots[63], value);
    atomicAnd(&slots[62], ~(1 << (value & 7)));
    atomicXor(&slots[61], value * 77);
}
