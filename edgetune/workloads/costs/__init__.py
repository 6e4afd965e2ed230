"""Costs of a network: FLOP, bytes and kernel launches of each operator, for a batch size, precision and task."""

from edgetune.workloads.costs.ops_table import operator_table

__all__ = ["operator_table"]
