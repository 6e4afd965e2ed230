"""The entry point and the error boundary: every error ends in two lines and a documented exit code."""

import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType

from edgetune.artifacts.origin import command_runs
from edgetune.cli.screen import print_document, print_lines, show_warnings
from edgetune.errors import FILE_HINTS, EdgetuneError, ExitCode, InputError, NotRestoredError
from edgetune.processes import privilege
from edgetune.processes.privilege import act_as_caller
from edgetune.processes.start import forget_working_folder
from edgetune.processes.streams import hold_closed_streams, leave_lost_terminal, settle_stdout, write
from edgetune.visible import one_line
from edgetune.workflows.reporting import STOPS, Stopped, stop_code


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    The start makes little garbage, and a collector that looks for it takes 5 ms, as it does again at exit. The command
    enables it; without one, e.g. for ``--help``, it stays off.
    """
    gc.disable()
    forget_working_folder()
    sys.meta_path.insert(0, _PandasLater)
    code = run(sys.argv[1:] if argv is None else argv, act_as_caller)
    if not gc.isenabled():
        gc.freeze()
    sys.exit(code)


class _PandasLater:
    """Tells pyarrow that there is no pandas, which it would load for 0.4 s only to see that a list is no column of it.

    Whatever else imports pandas gets it, and pyarrow too once it is to make a table of pandas.
    """

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        """Raise ``ImportError`` where pandas is imported by pyarrow, of which no frame shows but its caller's."""
        if name != "pandas":
            return
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__", "").startswith("importlib."):
            frame = frame.f_back
        name = "" if frame is None or frame.f_code.co_name == "to_pandas" else frame.f_globals.get("__name__", "")
        if name == "pyarrow.compute" or name.startswith("edgetune."):
            raise ImportError("pyarrow can do without pandas")


def run(argv: Sequence[str], begin: Callable[[], None] = lambda: None) -> int:
    """Run the command line and return its exit code; print errors on standard error.

    Args:
        argv: The words of the command line.
        begin: Called first: ``main`` has the whole process take the identity of the user who called sudo.
    """
    hold_closed_streams()
    show_warnings()
    stop_on_signals()
    _heard.clear()
    try:
        begin()
        code = _invoke(list(argv))
        write("", sys.stdout)
    except BaseException as error:
        code = _end(error, verbose="--verbose" in argv)
        settle_stdout()
    return code


def _invoke(argv: list[str]) -> int:
    import typer  # here, for Ctrl-C while it loads is to end as quietly as later
    from typer.main import get_command

    from edgetune.cli.app import app

    command = get_command(app)
    if VARIABLE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
        os.environ["COLUMNS"] = "9999"  # at which rich would wrap the help of a word, and typer would offer the pieces
        command.main(args=[], prog_name="edgetune")
    try:
        with command_runs(argv), command.make_context("edgetune", argv) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    return ExitCode.DONE


def stop_on_signals() -> None:
    """Turn SIGTERM, SIGHUP (a lost terminal) and SIGQUIT (Ctrl-\\) into ``Stopped``, once: a second changes nothing."""

    def stop(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, lambda *_: None)
        if number == signal.SIGHUP:
            leave_lost_terminal()
        _heard.append(number)
        raise Stopped(number)

    def interrupt(number: int, frame: FrameType | None) -> None:
        _heard.append(number)
        signal.default_int_handler(number, frame)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_DFL:  # under nohup, SIGHUP stays ignored
            signal.signal(number, stop)


VARIABLE = "_EDGETUNE_COMPLETE"
"""Set by the scripts of ``completions/``, which are typer's: the shell that asks what may follow its command line."""

_heard: list[int] = []
"""Signals that interrupted the program; a library that was being loaded then may have made another error of it."""


def _end(error: BaseException, *, verbose: bool) -> int:
    if _heard and not isinstance(error, NotRestoredError):
        return 128 + _heard[0]
    if isinstance(error, STOPS) or type(error).__name__ == "Abort":  # typer's, when a question is declined
        return stop_code(error)
    from edgetune.plugins import plugin_error

    if isinstance(error, SystemExit) and plugin_error(error) is None:
        return error.code if isinstance(error.code, int) else ExitCode.UNEXPECTED
    if isinstance(error, BrokenPipeError):
        return ExitCode.DONE
    message, hint, code = describe(error)
    if (user := privilege.acting_as) is not None and _denied(error):
        hint = f"{hint}; under {user.through} edgetune reads and writes files as {user.account.pw_name}"
    if verbose and code == ExitCode.UNEXPECTED:
        import traceback

        print_document("".join(traceback.format_exception(error)), stream=sys.stderr)
    try:
        print_lines(f"error: {one_line(message)}", f"hint: {one_line(hint)}", stream=sys.stderr)
    except OSError:  # nobody can read it: the exit code still tells
        return code
    return code


def _denied(error: BaseException | None) -> bool:
    """Return whether an error was caused by a missing permission to open a file."""
    while error is not None:
        if isinstance(error, PermissionError):
            return True
        error = error.__cause__ or error.__context__
    return False


def describe(error: BaseException) -> tuple[str, str, int]:
    """Return the message, hint and exit code of an error."""
    from edgetune.plugins import plugin_error

    error = plugin_error(error) or _removed_option(error) or _strange_name(error) or error
    if isinstance(error, EdgetuneError):
        return error.message, error.hint, error.exit_code
    if isinstance(error, OSError) and error.errno in FILE_HINTS:
        name = "standard output" if error.filename is None else os.fsdecode(error.filename)
        return f"{name}: {error.strerror}", FILE_HINTS[error.errno], ExitCode.USAGE
    usage = getattr(error, "format_message", None)  # how typer reports bad usage, whichever click it carries
    if callable(usage):
        return _plain(str(usage())), _usage_hint(error), ExitCode.USAGE
    if isinstance(error, MemoryError):
        return "out of memory", "free some memory, or try a smaller batch size", ExitCode.UNEXPECTED
    report = "run again with --verbose, and report it with what that prints"
    return f"unexpected: {type(error).__name__}: {error}", report, ExitCode.UNEXPECTED


def _strange_name(error: BaseException) -> InputError | None:
    """Return the error for a name that no file can have here."""
    if isinstance(error, UnicodeEncodeError) and error.encoding == sys.getfilesystemencoding():
        return InputError(f"{error.object} is no name in this locale, whose encoding is {error.encoding}", _UTF_8)
    if isinstance(error, ValueError) and str(error) == _NUL:
        return InputError("a document names a file whose name holds NUL, as no file's does", "correct the name")
    return None


_UTF_8 = "use a locale with UTF-8: export LANG=C.UTF-8"
_NUL = "embedded null byte"
"""What Python says of any path with NUL in it; arguments of a command cannot have one."""


def _plain(message: str) -> str:
    message = message.partition(" (Possible options:")[0].partition(" Did you mean")[0].rstrip(".")
    return message[:1].lower() + message[1:]


def _removed_option(error: BaseException) -> InputError | None:
    from edgetune.cli.removed import removed

    context, option = getattr(error, "ctx", None), getattr(error, "option_name", None)
    if context is None or option is None or "no such option" not in str(error).lower():
        return None
    return removed(context.command_path, option)


def _usage_hint(error: BaseException) -> str:
    from edgetune.choices import closest, nearest

    context = getattr(error, "ctx", None)
    if context is None:
        return "see edgetune --help"
    message, see = str(error), f"see {context.command_path} --help"
    option = getattr(error, "option_name", None)
    if option is not None and "no such option" in message.lower():
        parameters = context.command.get_params(context)
        words = [word for parameter in parameters for word in (*parameter.opts, *parameter.secondary_opts)]
        known = [word for word in words if word.startswith("--")]
        meant = " or ".join(word for word in known if word.startswith(option)) or closest(option, known)
        return f"did you mean {meant}? {see}" if meant else see
    if "no such command" in message.lower():
        return nearest(message.split("'")[1], context.command.list_commands(context))
    if "extra argument" in message:
        return f"write a list or a quantity as one word, e.g. 1,4,16 or 30W; {see}"
    return see
