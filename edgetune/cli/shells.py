"""Completion scripts for bash, zsh and fish, written out whole: a TAB starts no Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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
        f' arguments="{_words(_next(entry, entries))}" ;;'
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
        below = [other for other in entries if other.words[:-1] == entry.words and other.words]
        if below:
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
        below = [other for other in entries if other.words and other.words[:-1] == entry.words]
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


def _next(entry: CommandEntry, entries: Sequence[CommandEntry]) -> list[str]:
    below = [other.words[-1] for other in entries if other.words and other.words[:-1] == entry.words]
    return [*below, *entry.arguments]


def _words(words: object) -> str:
    return " ".join(str(word) for word in words)  # type: ignore[attr-defined]


def _quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _function(entry: CommandEntry) -> str:
    return "_".join(("_edgetune", *entry.words))


def _zsh_words(entry: CommandEntry) -> str:
    """Return what may be an argument: files, or the words that are known."""
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
