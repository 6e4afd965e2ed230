"""``edgetune completions``: generates the completion scripts of ``completions/`` from the commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from edgetune.cli.screen import print_document
from edgetune.errors import InputError


@dataclass(frozen=True, slots=True)
class Switch:
    """An option of a command.

    Args:
        names: As written, e.g. ``("--task", "-t")``.
        help: One line.
        takes_value: Whether a value follows.
        values: Values to offer; files when empty.
    """

    names: tuple[str, ...]
    help: str
    takes_value: bool
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command: its words (``("zoo", "export")``), one line of help, its options and values of its arguments."""

    words: tuple[str, ...]
    help: str
    switches: tuple[Switch, ...]
    arguments: tuple[str, ...]


_NOTE = "# Made by: edgetune completions --write completions/"


def bash(entries: Sequence[CommandEntry]) -> str:
    """Return the bash script. Bash splits words at colons, so the line is split again here."""
    cases = [
        f'        "{" ".join(entry.words)}") options="{_words(n for s in entry.switches for n in s.names)}"'
        f' arguments="{_words([*(each.words[-1] for each in _below(entry, entries)), *entry.arguments])}" ;;'
        for entry in entries
    ]
    values = [
        f'        "{" ".join(entry.words)} {name}") values="{_words(switch.values)}"; expects=1 ;;'
        for entry in entries
        for switch in entry.switches
        if switch.takes_value
        for name in switch.names
    ]
    known = "|".join(f'"{" ".join(entry.words)}"' for entry in entries if entry.words)
    return f"""{_NOTE}
_edgetune() {{
    local line="${{COMP_LINE:0:COMP_POINT}}" words current previous word longer
    local key="" options="" arguments="" values="" expects=0
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    current="${{words[-1]}}" previous="${{words[-2]:-}}"
    for word in "${{words[@]:1:${{#words[@]}}-2}}"; do
        longer="${{key:+$key }}$word"
        case "$longer" in {known}) key="$longer" ;; esac
    done
    case "$key" in
{chr(10).join(cases)}
    esac
    case "$key $previous" in
{chr(10).join(values)}
    esac
    if (( expects )); then
        COMPREPLY=($(compgen -W "$values" -- "$current"))
    elif [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "$options" -- "$current"))
    else
        COMPREPLY=($(compgen -W "$arguments" -- "$current"))
    fi
    if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${{COMPREPLY[@]#"${{current%"${{current##*:}}"}}"}}")
    fi
}}
complete -o bashdefault -o default -F _edgetune edgetune
"""


def zsh(entries: Sequence[CommandEntry]) -> str:
    """Return the zsh script: one function per command, chosen by the words before the cursor."""
    functions = []
    for entry in entries:
        specs = [_zsh_switch(switch) for switch in entry.switches]
        if below := _below(entry, entries):
            described = " ".join(_quote(f"{other.words[-1]}:{other.help}") for other in below)
            beside = f"; _alternative {_zsh_words(entry)}" if entry.arguments else ""
            calls = "\n".join(f"            {other.words[-1]}) {_function(other)} ;;" for other in below)
            functions.append(f"""{_function(entry)}() {{
    local curcontext="$curcontext" state line
    typeset -A opt_args
    _arguments -C {" ".join(specs)} '1:command:->command' '*::argument:->argument'
    case $state in
        command) local -a commands=({described}); _describe command commands{beside} ;;
        argument) case $line[1] in
{calls}
        esac ;;
    esac
}}""")
        else:
            specs.append(_quote(f"*:argument:_alternative {_zsh_words(entry)}"))
            functions.append(f"{_function(entry)}() {{\n    _arguments {' '.join(specs)}\n}}")
    return "\n".join(["#compdef edgetune", _NOTE, *functions, '_edgetune "$@"', ""])


def fish(entries: Sequence[CommandEntry]) -> str:
    """Return the fish script: one line per command and per option."""
    lines = [_NOTE]
    for entry in entries:
        below = _below(entry, entries)
        here = " and ".join(f"__fish_seen_subcommand_from {word}" for word in entry.words).replace(" and ", "; and ")
        deeper = " ".join(other.words[-1] for other in below)
        outside = f"not __fish_seen_subcommand_from {deeper}" if below else ""
        condition = "; and ".join(part for part in (here, outside) if part)
        start = f"complete -c edgetune -n {_quote(condition)}"
        lines += [f"{start} -f -a {other.words[-1]} -d {_quote(other.help)}" for other in below]
        if entry.arguments:
            lines.append(f"{start} -a {_quote(_words(entry.arguments))}")
        lines += [f"{start} {_fish_switch(switch)}" for switch in entry.switches]
    return "\n".join([*lines, ""])


def _below(entry: CommandEntry, entries: Sequence[CommandEntry]) -> list[CommandEntry]:
    """Return the subcommands of a command."""
    return [other for other in entries if other.words and other.words[:-1] == entry.words]


def _words(words: object) -> str:
    return " ".join(str(word) for word in words)  # type: ignore[attr-defined]


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _function(entry: CommandEntry) -> str:
    return "_".join(("_edgetune", *entry.words))


def _zsh_words(entry: CommandEntry) -> str:
    """Return the candidates of an argument: files, and the known words."""
    words = _words(argument.replace(":", r"\:") for argument in entry.arguments)
    return f"'files:file:_files' 'words:word:({words})'"


def _zsh_switch(switch: Switch) -> str:
    help_text = switch.help.replace("[", r"\[").replace("]", r"\]").replace(":", r"\:")
    value = ""
    if switch.takes_value:
        words = _words(value.replace(":", r"\:") for value in switch.values)
        value = f":value:({words})" if switch.values else ":value:_files"
    return " ".join(_quote(f"{name}[{help_text}]{value}") for name in switch.names)


def _fish_switch(switch: Switch) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in switch.names)
    value = ""
    if switch.takes_value:
        value = f" -x -a {_quote(_words(switch.values))}" if switch.values else " -r"
    return f"{names}{value} -d {_quote(switch.help)}"


app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def completions(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")] = "bash",
    write: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Write all three scripts into this folder instead.")
    ] = None,
) -> None:
    """Print the completion script of a shell.

    \b
      source <(edgetune completions bash)
    """
    from edgetune.artifacts.files import write_atomically
    from edgetune.choices import choose

    scripts = render()
    if write is None:
        choose(shell, ("bash", "zsh", "fish"), what="shell")
        print_document(scripts[{"bash": "edgetune.bash", "zsh": "_edgetune", "fish": "edgetune.fish"}[shell]])
        return
    folder = Path(write)
    if not folder.is_dir():
        raise InputError(f"{write} is not a folder", "make it first")
    for name, text in scripts.items():
        write_atomically(text.encode(), folder / name)


def render() -> dict[str, str]:
    """Return the text of each script by its file name."""
    from typer.main import get_command

    from edgetune.cli.app import app as whole

    command = get_command(whole)
    with command.make_context("edgetune", [], resilient_parsing=True) as context:
        entries = walk(command, context, (), words())
    return {"edgetune.bash": bash(entries), "_edgetune": zsh(entries), "edgetune.fish": fish(entries)}


def words() -> dict[str, tuple[str, ...]]:
    """Return the values of each option or argument; a key with the words of a command is for that command alone."""
    from edgetune.artifacts.problem import Objective, ProblemKind
    from edgetune.artifacts.profile import TASKS
    from edgetune.stages.schedule.policies import POLICIES
    from edgetune.stages.search.strategies import STRATEGIES
    from edgetune.workflows.figures import views_of
    from edgetune.workflows.schedule.options import LIMITS
    from edgetune.workflows.search.options import FAMILIES
    from edgetune.workloads.kernels import PRECISIONS
    from edgetune.workloads.zoo import NETWORKS

    return {
        "--task": TASKS,
        "--kind": get_args(ProblemKind),
        "--strategy": ("auto", *(name for name in STRATEGIES if not name.endswith("-study"))),
        "--objective": get_args(Objective),
        "--device": DEVICES,
        "--modes": ("MAXN", "grid:441", "all"),
        "--precision": tuple(PRECISIONS),
        "--family": FAMILIES,
        "--strategies": tuple(STRATEGIES),
        "--grid": ("fulcrum", "auto"),
        "search evaluate --by": ("strategy", "workload"),
        "search evaluate --like": ("others",),
        "show --view": tuple(sorted(views_of("trace"))),
        "schedule run --view": tuple(views_of("timeline")),
        "--policy": tuple(POLICIES),
        "--limit": LIMITS,
        "--by": ("op", "class", "node"),
        "MODEL": tuple(f"zoo:{name}" for name in NETWORKS),
        "TABLE": tuple(f"zoo:{name}" for name in NETWORKS),
        "NETWORK": tuple(NETWORKS),
        "DEVICE": DEVICES,
        "SHELL": ("bash", "zsh", "fish"),
        **_of_kernels(),
    }


def _of_kernels() -> dict[str, tuple[str, ...]]:
    """Return the values of the options of ``schedule kernels``, which has its own policies and devices."""
    from edgetune.stages.elastic.gpu import catalogue
    from edgetune.stages.elastic.policies import POLICIES

    offered = {"--policy": tuple(POLICIES), "--device": ("nvidia:0", "jetson"), "--gpu": tuple(catalogue())}
    offered["--wiscore"] = ("corrected", "literal")
    commands = ("transform", "shrink", "simulate", "run", "bench", "calibrate")
    return {f"schedule kernels {name} {option}": words for name in commands for option, words in offered.items()}


DEVICES = ("auto", "host", "twin:orin-agx", "recorded:", "jetson", "nvidia:0")


def walk(command: Any, context: Any, path: tuple[str, ...], known: dict[str, tuple[str, ...]]) -> list[CommandEntry]:
    """Return the entries of ``command`` and of its subcommands."""
    from edgetune.cli.app import COMMANDS

    options = [parameter for parameter in command.get_params(context) if parameter.param_type_name == "option"]
    arguments = [parameter for parameter in command.get_params(context) if parameter.param_type_name == "argument"]
    switches = tuple(
        Switch(
            names=tuple(sorted((*option.opts, *option.secondary_opts), key=len, reverse=True)),
            help=" ".join((option.help or "").split()),
            takes_value=not option.is_flag,
            values=next(
                (known[word] for name in option.opts for word in (" ".join((*path, name)), name) if word in known), ()
            ),
        )
        for option in options
        if not option.hidden
    )
    offered = tuple(word for argument in arguments for word in known.get(argument.metavar or "", ()))
    summary = COMMANDS.get(" ".join(path)) or " ".join((command.help or "").partition("\n\n")[0].split())
    entries = [CommandEntry(path, summary, switches, offered)]
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        below = command.get_command(context, name)
        with below.make_context(name, [], parent=context, resilient_parsing=True) as inner:
            entries += walk(below, inner, (*path, name), known)
    return entries
