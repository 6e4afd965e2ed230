"""NVIDIA GPUs behind NVIDIA's own driver, measured, set and restored through NVML; excludes a Jetson's own GPU."""
