"""The workflows of ``edgetune schedule``: networks prepared, layers measured, jobs run, generated and compared."""
