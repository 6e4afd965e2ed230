"""Any NVIDIA GPU that NVIDIA's own driver runs: read, set and put back through NVML; a Jetson's own GPU is not one."""
