"""Elastic kernels on a real GPU, through CUDA's driver."""
