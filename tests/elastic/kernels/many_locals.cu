// Locals of all kinds that live across barriers: pointers to others, arrays, structs, names used again in another scope.
// launch many_locals grid=4 block=32 out=float64[128]:zero in=int32[256]
struct Pair {
    int first;
    float second[2];
};
__global__ void many_locals(double *out, const int *in) {
    __shared__ int held[32];
    typedef unsigned char byte;
    int own = in[blockIdx.x * blockDim.x + threadIdx.x], *seen = &own, rest[3], late;
    const int *where = in + threadIdx.x;
    const float factors[2] = {0.5f, 1.0f + threadIdx.x};
    byte small = own;
    bool even = own % 2 == 0;
    Pair pair = {own, {1.0f, 2.0f}};
    unsigned long long wide = 1ull << threadIdx.x;
    rest[0] = own + 1;
    held[threadIdx.x] = own;
    __syncthreads();
    *seen += held[(threadIdx.x + 1) % 32];
    rest[1] = rest[0] * 2;
    small += 200;
    if (even)
        late = 3;
    else
        late = where[1];
    {
        int again = held[threadIdx.x ^ 2];
        __syncthreads();
        held[threadIdx.x] = again + small;
        __syncthreads();
        pair.first += again;
    }
    {
        float again = held[31 - threadIdx.x] * 0.25f;
        __syncthreads();
        pair.second[even] += again;
        held[threadIdx.x] = own;
    }
    __syncthreads();
    rest[2] = held[threadIdx.x ^ 1] + rest[1];
    out[blockIdx.x * blockDim.x + threadIdx.x] =
        own + rest[2] * factors[1] + pair.first + pair.second[0] - pair.second[1] + small + late * factors[0] + wide % 1000;
}
