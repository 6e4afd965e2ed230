"""Elastic kernels on a real GPU, through CUDA's driver API: the one part of ``edgetune.elastic`` that touches a device."""
