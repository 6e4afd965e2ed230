"""Fakes of drivers and of the machine, for tests alone; a board's fake is public, in ``edgetune.testing``."""
