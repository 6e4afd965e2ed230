"""Training beside inference on one accelerator: plan, policy, engines, reports."""
