"""Requests: the words that say how they come, and where they come from in a run."""
