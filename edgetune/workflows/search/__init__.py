"""``edgetune search``: what may be chosen, the search, and the evaluation of strategies on measured tables."""
