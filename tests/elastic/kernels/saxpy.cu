// launch saxpy grid=6 block=64 y=float32[380] x=float32[380] a=float32:0.5 n=int32:380
// launch saxpy grid=1 block=1 y=float32[4] x=float32[4] a=float32:2 n=int32:4
extern "C" __global__ void saxpy(float *y, const float *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
