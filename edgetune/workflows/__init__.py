"""One workflow per command: a workflow joins devices, workloads and stages, and returns an artifact.

    cli/profile.py      parse: the fields of ProfileCommandOptions are the options; print the plan or the sections
        v
    workflows/profile/profile.py    profile(opts, reporter) -> the table, and where it was written
        v                           plan_profile(opts, reporter) -> what --dry-run prints
    devices, workloads, stages

Each command has

- ``workflows/NAME/options.py``: one frozen dataclass, a field per option, annotated with an ``options.Option``. It
  imports nothing heavy, because ``--help`` reads it. Options that several commands share are aliases in
  ``workflows/options.py``, or dataclasses to inherit from, such as ``profile.options.MeasuringOptions``.
- ``workflows/NAME/NAME.py``: functions that take these options whole and a ``Reporter``, and return what was made. They
  import at the top of the file, raise the errors of ``edgetune.errors``, and neither print nor exit.
- ``cli/NAME.py``: ``@command(app)`` on ``function(opts: Options, terminal: Terminal)``, which imports the workflow
  inside the function, calls it and prints what it returns; exit codes are decided there.

The files beside these folders are what several workflows share: option types (``options``) and their parsing
(``parse_options``, ``device_option``), outputs (``output``, ``kept_rows``), notes and progress (``reporting``,
signals (``stopping``) and figures (``figures``).

To add an option, add a field. The Python interface (``edgetune.profile(...)``) takes the same fields by name, as words
with units or as numbers in base SI units.
"""
