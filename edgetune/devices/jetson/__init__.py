"""NVIDIA Jetson boards: detection, knobs and sensors, through the files of the kernel."""
