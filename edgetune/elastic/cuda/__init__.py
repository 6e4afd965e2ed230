"""Elastic kernels on a real GPU, through CUDA's driver: the part of ``edgetune.elastic`` that touches a device."""
