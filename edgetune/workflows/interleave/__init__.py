"""``edgetune interleave``: tenants are read, measured where that is missing, planned, and run by engines in turn."""
