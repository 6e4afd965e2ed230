"""Artifacts: profiles, plans, traces, timelines and other files of edgetune, with their formats and readers."""
