"""Searching: which power mode and batch size, within which budgets."""
