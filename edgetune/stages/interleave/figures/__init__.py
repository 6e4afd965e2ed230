"""Figures of runs: latency by engine, everything over time, and a few cycles minibatch by minibatch."""
