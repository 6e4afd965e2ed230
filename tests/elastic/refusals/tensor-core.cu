#include <mma.h>

__global__ void multiply(half *a, half *b, float *c) {
    nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major> left;
    nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::row_major> right;
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sum;
    nvcuda::wmma::fill_fragment(sum, 0.0f);
    nvcuda::wmma::load_matrix_sync(left, a + 256 * blockIdx.x, 16);
    nvcuda::wmma::load_matrix_sync(right, b + 256 * blockIdx.x, 16);
    nvcuda::wmma::mma_sync(sum, left, right, sum);
    nvcuda::wmma::store_matrix_sync(c + 256 * blockIdx.x, sum, 16, nvcuda::wmma::mem_row_major);
}
