"""``edgetune fleet``: many boards as one device, on Dask."""

from edgetune.cli.app import LazyApp
from edgetune.cli.command import AnswerTerminal, command
from edgetune.cli.screen import answer, print_lines
from edgetune.workflows.fleet.options import FleetOptions, JoinOptions, StartOptions

app = LazyApp(short_help="Many boards as one device.")


@app.callback()
def fleet() -> None:
    """Join many boards to one device, for profile and search: --device fleet:ADDRESS."""


@command(app, short_help="Run the scheduler that hands out the work.")
def start(opts: StartOptions, terminal: AnswerTerminal) -> None:
    """Run the scheduler of a fleet until it is stopped, and say what to type on the boards.

    It makes a certificate, which all machines of the fleet need: who has it may join and send work.
    """
    from edgetune.workflows.fleet.join import start as workflow

    workflow(opts, terminal.screen)


@command(app, short_help="Let this board work for a fleet.")
def join(opts: JoinOptions, terminal: AnswerTerminal) -> None:
    """Let this board work for a fleet until this is stopped, which puts the board back.

    The board measures networks of the zoo and files that it is sent. It runs code, such as Python files, only with
    --allow-code.
    """
    from edgetune.workflows.fleet.join import join as workflow

    workflow(opts, terminal.screen)


@command(app, short_help="List the boards of a fleet.")
def show(opts: FleetOptions, terminal: AnswerTerminal) -> None:
    """List the boards of a fleet: what each is, and what it does."""
    from edgetune.workflows.fleet.join import boards, lines_of

    found = boards(opts)
    if terminal.json:
        answer({"boards": found})
    else:
        print_lines(*lines_of(found))


@command(app, short_help="Stop a fleet: its scheduler, and what its boards do.")
def stop(opts: FleetOptions, terminal: AnswerTerminal) -> None:
    """Stop the scheduler of a fleet; its boards stop measuring, are put back, and wait for the next scheduler."""
    from edgetune.workflows.fleet.join import stop as workflow

    workflow(opts, terminal.screen)
