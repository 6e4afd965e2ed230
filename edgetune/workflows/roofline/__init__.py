"""What ``edgetune roofline`` does: peaks, a network beneath them, a tuned plan, and the costs of operators."""
