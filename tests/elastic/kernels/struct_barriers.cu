// A struct by value whose members are the thread's own, changed between barriers, and pointers moved on.
// launch struct_barriers grid=2,2 block=4,2,2 out=float32[64]:zero in=float32[64] box=int32:3,1+float32:0.5,2
struct Box {
    int shift[2];
    float scale, offset;
};
__global__ void struct_barriers(float *out, const float *in, Box box) {
    __shared__ float held[16];
    const int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    in += (blockIdx.y * gridDim.x + blockIdx.x) * 16;
    out += (blockIdx.y * gridDim.x + blockIdx.x) * 16 + t;
    box.shift[t & 1] += threadIdx.z;
    box.scale *= 1 + threadIdx.y;
    held[t] = in[t] * box.scale;
    __syncthreads();
    box.offset -= held[(t + box.shift[0]) % 16];
    Box before = box;
    __syncthreads();
    held[t] = box.offset;
    box = Box{{t, 2}, before.offset, 1.0f};
    __syncthreads();
    *out = held[(t + box.shift[1]) % 16] + box.scale * before.scale + before.shift[1];
}
