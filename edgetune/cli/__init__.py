"""The command line: parses options, calls a workflow and prints. Only this package uses typer, rich and exit codes."""
