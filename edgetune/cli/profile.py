"""``edgetune profile``: a network on a device becomes a table of time, power and energy."""

import typer

from edgetune.cli.command import PlanningTerminal, command
from edgetune.workflows.profile.options import ProfileCommandOptions

app = typer.Typer(rich_markup_mode=None, add_completion=False)


_USUAL = (
    "task", "batch_sizes", "device", "modes", "output", "minibatches", "target_ci", "convergence", "dim", "fresh",
)  # fmt: skip


@command(app, usual=_USUAL)
def profile(opts: ProfileCommandOptions, terminal: PlanningTerminal) -> None:
    """Measure a network: time, power and energy per minibatch, for batch sizes and power modes.

    With --convergence, train it (or a small proxy of its task) instead, at each batch size with several seeds: how many
    epochs it takes to an accuracy, which edgetune search needs for the time to accuracy.

    Run the same command again to resume what was interrupted. Ends with 5 when some points failed; they are in the
    table with their reason.
    """
    if opts.convergence:
        _train(opts, terminal)
        return
    from edgetune.cli.profile_report import report, report_plan
    from edgetune.workflows.device_option import is_fleet

    if terminal.dry_run:
        from edgetune.workflows.profile.profile import plan_profile

        report_plan(*plan_profile(opts, terminal.screen), terminal)
        return
    if is_fleet(opts.device):
        from edgetune.workflows.fleet.profile import profile as workflow
    else:
        from edgetune.workflows.profile.profile import profile as workflow

    report(*workflow(opts, terminal.screen), terminal)


def _train(opts: ProfileCommandOptions, terminal: PlanningTerminal) -> None:
    from edgetune.cli.profile_report import report_convergence as report
    from edgetune.cli.profile_report import report_convergence_plan as report_plan
    from edgetune.workflows.profile.convergence import convergence, training_request

    if terminal.dry_run:
        report_plan(training_request(opts), terminal)
        return
    report(*convergence(opts, terminal.screen), terminal)
