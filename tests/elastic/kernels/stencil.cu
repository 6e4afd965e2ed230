// Grid and block of three dimensions each.
// launch stencil grid=2,3,2 block=4,4,2 out=float32[4x10x8]:zero in=float32[4x10x8] size=int32:8,10,4
struct Size {
    int x, y, z;
};
__global__ void stencil(float *out, const float *in, const Size size) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    const int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= size.x || y >= size.y || z >= size.z) return;
    const int plane = size.x * size.y, at = z * plane + y * size.x + x;
    float sum = -6.0f * in[at];
    if (x > 0) sum += in[at - 1];
    if (x + 1 < size.x) sum += in[at + 1];
    if (y > 0) sum += in[at - size.x];
    if (y + 1 < size.y) sum += in[at + size.x];
    if (z > 0) sum += in[at - plane];
    if (z + 1 < size.z) sum += in[at + plane];
    out[at] = sum;
}
