// Loops of different lengths, a do-while, a switch, a ternary; no barriers.
// launch mandelbrot grid=3,3 block=8,8 out=uint8[24x24]:zero side=int32:24 most=int32:60
__global__ void mandelbrot(unsigned char *out, int side, int most) {
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    float cx = -2.2f + 3.2f * px / side, cy = -1.6f + 3.2f * py / side, x = 0, y = 0;
    int step = 0;
    do {
        float next = x * x - y * y + cx;
        y = 2 * x * y + cy;
        x = next;
        if (x * x + y * y > 4) break;
    } while (++step < most);
    switch (step & 3) {
        case 0: out[py * side + px] = step; break;
        case 1: out[py * side + px] = step + 64;
        default: out[py * side + px] ^= step == most ? 255 : 128;
    }
}
