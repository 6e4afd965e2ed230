"""Workflows of ``edgetune search``: candidates, the search, and the evaluation of strategies on measured tables."""
