/* The mean of each window of each channel, over what of it lies inside the image.

   grid: (outputs / 256), rounded up; block: (256): a thread for each output. */
// launch average_pool grid=2 block=256 input=float32[7x9x9] output=float32[7x5x5]:zero channels=int32:7 in_side=int32:9 out_side=int32:5 window=int32:3 stride=int32:2 padding=int32:1
extern "C" __global__ void average_pool(const float *input, float *output, int channels, int in_side, int out_side,
                                        int window, int stride, int padding)
{
    int index = blockIdx.x * 256 + threadIdx.x;
    if (index < channels * out_side * out_side) {
        int channel = index / (out_side * out_side);
        int first_y = index / out_side % out_side * stride - padding;
        int first_x = index % out_side * stride - padding;
        float sum = 0.0f;
        int counted = 0;
        for (int in_y = max(first_y, 0); in_y < min(first_y + window, in_side); in_y++) {
            for (int in_x = max(first_x, 0); in_x < min(first_x + window, in_side); in_x++) {
                sum += input[(channel * in_side + in_y) * in_side + in_x];
                counted += 1;
            }
        }
        output[index] = sum / counted;
    }
}
