__global__ void collatz(int *steps, const int *start) {
    int x = start[threadIdx.x], n = 0;
again:
    if (x != 1) {
        x = x % 2 ? 3 * x + 1 : x / 2;
        ++n;
        goto again;
    }
    steps[threadIdx.x] = n;
}
