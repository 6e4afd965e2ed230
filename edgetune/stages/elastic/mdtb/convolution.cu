/* A convolution, as a product of two matrices of which the second is never written out (implicit GEMM):

     output[channel][pixel] = sum over place of weights[channel][place] * patches[place][pixel]

   where a place is an input channel and a position in the window, and patches[place][pixel] is the input that lies
   under it for that pixel. A block of 16 x 16 threads computes 32 channels of 32 pixels, each thread 2 x 2 of them.

   grid: (pixels / 32, out_channels / 32), rounded up; block: (16, 16).
   Images are square, channel after channel. Output begins at channel first_channel of its buffer, so that layers side
   by side write into one buffer and nothing is copied to put them together. */
// launch convolution grid=3,2 block=16,16 input=float32[5x9x9] weights=float32[40x5x3x3] bias=float32[40] output=float32[44x9x9]:zero in_channels=int32:5 in_side=int32:9 out_channels=int32:40 out_side=int32:9 window=int32:3 stride=int32:1 padding=int32:1 first_channel=int32:4 relu=int32:1
extern "C" __global__ void convolution(const float *input, const float *weights, const float *bias, float *output,
                                       int in_channels, int in_side, int out_channels, int out_side, int window,
                                       int stride, int padding, int first_channel, int relu)
{
    __shared__ float weight_tile[16][33];
    __shared__ float patch_tile[16][33];
    int thread = threadIdx.y * 16 + threadIdx.x;
    int places = in_channels * window * window;
    int pixels = out_side * out_side;
    int own_pixel = blockIdx.x * 32 + thread % 32; /* whose patch this thread reads */
    int corner_y = own_pixel / out_side * stride - padding;
    int corner_x = own_pixel % out_side * stride - padding;
    float sums[2][2];
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            sums[i][j] = 0.0f;
        }
    }
    for (int begin = 0; begin < places; begin += 16) {
        for (int half = 0; half < 2; half++) {
            int element = thread + half * 256;
            int channel = blockIdx.y * 32 + element / 16;
            int column = begin + element % 16;
            float weight = 0.0f;
            if (channel < out_channels && column < places) {
                weight = weights[channel * places + column];
            }
            weight_tile[element % 16][element / 16] = weight;
            int place = begin + element / 32;
            int in_window = place % (window * window);
            int in_y = corner_y + in_window / window;
            int in_x = corner_x + in_window % window;
            float value = 0.0f;
            if (place < places && own_pixel < pixels && in_y >= 0 && in_y < in_side && in_x >= 0 && in_x < in_side) {
                value = input[(place / (window * window) * in_side + in_y) * in_side + in_x];
            }
            patch_tile[element / 32][thread % 32] = value;
        }
        __syncthreads();
        for (int k = 0; k < 16; k++) {
            for (int row = 0; row < 2; row++) {
                for (int column = 0; column < 2; column++) {
                    sums[row][column] += weight_tile[k][threadIdx.y + 16 * row] * patch_tile[k][threadIdx.x + 16 * column];
                }
            }
        }
        __syncthreads();
    }
    for (int row = 0; row < 2; row++) {
        for (int column = 0; column < 2; column++) {
            int channel = blockIdx.y * 32 + threadIdx.y + 16 * row;
            int pixel = blockIdx.x * 32 + threadIdx.x + 16 * column;
            if (channel < out_channels && pixel < pixels) {
                float value = sums[row][column] + bias[channel];
                if (relu && value < 0.0f) {
                    value = 0.0f;
                }
                output[(first_channel + channel) * pixels + pixel] = value;
            }
        }
    }
}
