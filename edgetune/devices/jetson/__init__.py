"""NVIDIA Jetson boards: what they are, their knobs and their sensors, through the files that their kernels show."""
