// Matrix products of a warp for the CPU. Each lane holds all of A and of B, and every 32nd element of an accumulator,
// which it computes alone, sums in the order of k. Which lane holds what is unspecified in CUDA as well.
// Source: CUDA C++ Programming Guide, "Warp Matrix Functions".
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace nvcuda {
namespace wmma {

namespace precision {
struct tf32;
}
struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

template <class T> struct edgetune_stored { typedef T type; };
template <> struct edgetune_stored<precision::tf32> { typedef float type; };

template <class Use, int rows, int columns> struct edgetune_shape {
    static const int height = rows, width = columns, lanes = 1;  // each lane holds all of it
};
template <int rows, int columns> struct edgetune_shape<accumulator, rows, columns> {
    static const int height = rows, width = columns, lanes = 32;
};

template <class Use, int m, int n, int k, class T, class Layout = void>
struct fragment : edgetune_shape<Use, std::is_same<Use, matrix_b>::value ? k : m, std::is_same<Use, matrix_a>::value ? k : n> {
    typedef edgetune_shape<Use, std::is_same<Use, matrix_b>::value ? k : m, std::is_same<Use, matrix_a>::value ? k : n> shape;
    typedef typename edgetune_stored<T>::type element_type, storage_element_type;
    static const int num_elements = shape::height * shape::width / shape::lanes, num_storage_elements = num_elements;
    element_type x[num_elements];

    // The place in the matrix, row by row, of an element of this lane.
    static int edgetune_place(int element) {
        return shape::lanes == 1 ? element : element * shape::lanes + static_cast<int>(edgetune_shim::lane_number());
    }
    static size_t edgetune_offset(int element, unsigned int stride, bool by_rows) {
        const size_t row = edgetune_place(element) / shape::width, column = edgetune_place(element) % shape::width;
        return by_rows ? row * stride + column : column * stride + row;
    }
};

#define EDGETUNE_FRAGMENT template <class Use, int m, int n, int k, class T, class Layout, class Element>              \
    static inline void
#define EDGETUNE_MATRIX fragment<Use, m, n, k, T, Layout>
#define EDGETUNE_EACH                                                                                                  \
    __syncwarp();                                                                                                      \
    for (int i = 0; i < part.num_elements; ++i)

EDGETUNE_FRAGMENT fill_fragment(EDGETUNE_MATRIX &part, const Element &value) { EDGETUNE_EACH part.x[i] = value; }
EDGETUNE_FRAGMENT load_matrix_sync(EDGETUNE_MATRIX &part, const Element *from, unsigned int stride) {
    EDGETUNE_EACH part.x[i] = from[part.edgetune_offset(i, stride, std::is_same<Layout, row_major>::value)];
}
EDGETUNE_FRAGMENT load_matrix_sync(EDGETUNE_MATRIX &part, const Element *from, unsigned int stride, layout_t layout) {
    EDGETUNE_EACH part.x[i] = from[part.edgetune_offset(i, stride, layout == mem_row_major)];
}
EDGETUNE_FRAGMENT store_matrix_sync(Element *to, const EDGETUNE_MATRIX &part, unsigned int stride, layout_t layout) {
    EDGETUNE_EACH to[part.edgetune_offset(i, stride, layout == mem_row_major)] = part.x[i];
}
#undef EDGETUNE_FRAGMENT
#undef EDGETUNE_MATRIX

template <class T> struct edgetune_sum { typedef float type; };
template <> struct edgetune_sum<double> { typedef double type; };
template <> struct edgetune_sum<int> { typedef int type; };

template <int m, int n, int k, class In, class LayoutA, class LayoutB, class Out, class Given>
static inline void mma_sync(fragment<accumulator, m, n, k, Out> &part, const fragment<matrix_a, m, n, k, In, LayoutA> &a,
                            const fragment<matrix_b, m, n, k, In, LayoutB> &b,
                            const fragment<accumulator, m, n, k, Given> &c, bool finite = false) {
    typedef typename edgetune_sum<Out>::type Sum;
    EDGETUNE_EACH {
        const int row = part.edgetune_place(i) / n, column = part.edgetune_place(i) % n;
        Sum sum = static_cast<Sum>(c.x[i]);
        for (int j = 0; j < k; ++j) sum += static_cast<Sum>(a.x[row * k + j]) * static_cast<Sum>(b.x[j * n + column]);
        part.x[i] = static_cast<Out>(sum);
    }
}
#undef EDGETUNE_EACH

// Rounded to the 10 bits of the format, ties away from zero.
static inline float __float_to_tf32(float value) {
    const unsigned int bits = ::edgetune_bits<unsigned int>(value);
    return (bits & 0x7f800000u) == 0x7f800000u ? value : ::edgetune_bits<float>((bits + 0x1000u) & 0xffffe000u);
}

}  // namespace wmma
}  // namespace nvcuda
