// A struct by value, read as a whole and written member by member and element by element.
// launch struct_parameter grid=3,2 block=16,2 out=float32[384]:zero view=int32:48,4+float32:0.25,0.5,1+int32:2
struct View {
    int width, height;
    float taps[3];
    int order;
};
__device__ float taken(View view, int x) {
    view.taps[1] += x;
    return view.taps[0] * view.taps[1] + view.taps[2];
}
__global__ void struct_parameter(float *out, View view) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    view.taps[x % 3] *= 2.0f + y;
    view.order -= x & 1;
    if (x < view.width && y < view.height) {
        out[2 * (y * view.width + x)] = taken(view, x);
        View copy = view;
        copy.taps[0] = -1.0f;
        out[2 * (y * view.width + x) + 1] = copy.taps[0] + view.taps[0] * view.order;
    }
}
