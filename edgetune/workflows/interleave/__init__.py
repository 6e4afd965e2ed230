"""Workflows of ``edgetune interleave``: read tenants, measure missing points, plan, and run the engines in turn."""
