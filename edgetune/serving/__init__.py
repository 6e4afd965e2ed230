"""Shared parts of all stages that answer requests: event clock, arrival processes, and latency figures."""
