"""Miriam's benchmark, rebuilt: six networks as CUDA kernels of our own, and four workloads of two of them."""
