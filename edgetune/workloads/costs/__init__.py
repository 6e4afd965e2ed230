"""Costs of a network: FLOP, bytes and kernel launches of each operator, for a batch size, precision and task."""

from edgetune.artifacts.ops import ledger_shares
from edgetune.workloads.costs.ops_table import model_table, operator_table

__all__ = ["ledger_shares", "model_table", "operator_table"]
