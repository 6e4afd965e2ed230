"""The terminal: parse, call one stage, write. The only place that knows typer, rich and exit codes."""
