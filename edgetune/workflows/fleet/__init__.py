"""``edgetune fleet`` and ``--device fleet:ADDRESS``: one sweep, search or roofline over many boards, on Dask."""
