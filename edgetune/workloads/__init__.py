"""Workloads: networks, their operator costs, and runnable minibatch steps."""
