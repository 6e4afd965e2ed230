"""The kernel-by-kernel sharing of a GPU: making kernels elastic, cutting them into pieces, sharing, benchmarks, costs."""
