"""Six networks as CUDA kernels of our own, and four workloads of two of them: Miriam's benchmark, built again."""
