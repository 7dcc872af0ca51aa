"""The command line itself: its verbs, the options that every verb has, and what becomes of errors."""

from __future__ import annotations

import functools
import importlib
import inspect
import io
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn, TextIO

import typer
from typer.core import TyperGroup
from typer.main import get_command

from seamark import __version__
from seamark.cli.call import Call, Manners
from seamark.cli.failures import Interrupted, failure_of
from seamark.cli.output import Output, clean_stdout
from seamark.cli.signals import ended_by_signals
from seamark.cli.verbs import FILES
from seamark.errors import SeamarkWarning, UsedWrongly, did_you_mean

_EVERYWHERE = "Options of every verb"

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document for programs.", rich_help_panel=_EVERYWHERE)
]
DebugOption = Annotated[
    bool, typer.Option("--debug", help="Show the stack trace of an error.", rich_help_panel=_EVERYWHERE)
]
LogJsonOption = Annotated[
    bool, typer.Option("--log-json", help="Log one JSON document a line on stderr.", rich_help_panel=_EVERYWHERE)
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Log what is done, not only warnings.", rich_help_panel=_EVERYWHERE)
]
ProjectOption = Annotated[
    Path | None,
    typer.Option(
        "--project",
        metavar="DIR",
        show_default=False,
        help="The project's folder, instead of the current one.",
        rich_help_panel=_EVERYWHERE,
    ),
]
_OPTIONS: dict[str, tuple[Any, Any]] = {
    "json": (JsonOption, False),
    "debug": (DebugOption, False),
    "log_json": (LogJsonOption, False),
    "verbose": (VerboseOption, False),
    "project": (ProjectOption, None),
}


def main() -> NoReturn:
    """Run the command line of this process and end with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a sign gets a question mark
    warnings.showwarning = _show_warning
    with ended_by_signals():
        code = run(sys.argv[1:])
    sys.exit(code)


_show_elsewhere = warnings.showwarning


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Ours are about the project, and not about a line of a program."""
    if issubclass(category, SeamarkWarning):
        print(f"Warning: {message}", file=sys.stderr)
    else:
        _show_elsewhere(message, category, filename, lineno, file, line)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and give its exit code: 0 done, 1 failed, 2 used wrongly; 143 after SIGTERM."""
    flags = arguments[: arguments.index("--")] if "--" in arguments else arguments
    # The two that decide how an error is shown are looked for before anything else can go wrong.
    is_json, debug = "--json" in flags, "--debug" in flags
    with clean_stdout(is_json) as stdout:
        output = Output(json=is_json, stdout=stdout, debug=debug)
        try:
            return _invoke(list(arguments), output)
        except (Exception, KeyboardInterrupt) as error:
            failure = failure_of(error, debug=debug)
            output.fail(failure)
            return failure.exit_code


def _invoke(arguments: list[str], output: Output) -> int:
    command = get_command(app())
    _without_types(command)
    try:
        code = command.main(arguments, prog_name="seamark", standalone_mode=False, obj=output)
    except typer.TyperException as error:
        raise _used_wrongly(error) from None
    return code if isinstance(code, int) else 0


def _without_types(group: Any) -> None:
    """Let help show no type beside an option that takes no value: `--yes <bool>` would ask for one."""
    for command in (group, *group.commands.values()):
        for option in (*command.params, command.get_help_option(typer.Context(command))):
            if getattr(option, "is_flag", False):
                option.metavar = ""


# --- verbs ------------------------------------------------------------------------------------------------------------


class _Verbs(TyperGroup):
    """The verbs; an unknown one is refused with the nearest that there is."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise UsedWrongly(
                f"there is no verb '{args[0]}'.", hint=did_you_mean(args[0], list(self.commands), "Verbs")
            )
        return super().resolve_command(ctx, args)


@functools.cache
def app() -> typer.Typer:
    """The command line with all its verbs, those of each file in the order of the file."""
    made = typer.Typer(cls=_Verbs, add_completion=False, pretty_exceptions_enable=False)
    made.callback(invoke_without_command=True)(_with_options(_no_verb))
    for name in FILES:
        for verb in importlib.import_module(f"seamark.cli.verbs.{name}").VERBS:
            text = inspect.getdoc(verb.function) or ""
            made.command(
                verb.name,
                help=text,
                short_help=text.partition("\n")[0],
                epilog=f"Example: {verb.example}",
                rich_help_panel=verb.panel,
            )(_with_options(verb.function))
    return made


VersionOption = Annotated[bool, typer.Option("--version", help="Print the version and end.", is_eager=True)]


def _no_verb(call: Call, version: VersionOption = False) -> None:
    """Keeps derived tables up to date on Spark, from a log that can be verified."""
    if version:
        call.output.show({"version": __version__}, lambda _: [f"seamark {__version__}"])
        raise typer.Exit
    if call.context.invoked_subcommand is None:
        group: Any = call.context.command
        verbs = {name: command.get_short_help_str(200) for name, command in group.commands.items()}
        call.output.show({"verbs": verbs}, lambda _: [call.context.get_help()])


def _with_options(function: Callable[..., None]) -> Callable[..., None]:
    """The function as typer sees it: with the options of every verb, and without the `Call` that it is given."""

    def command(ctx: typer.Context, **given: Any) -> None:
        own = Manners(**{name: given.pop(name) for name in _OPTIONS})
        before = ctx.parent.meta.get("seamark") if ctx.parent else None
        ctx.meta["seamark"] = manners = own | before if before else own
        try:
            function(Call(manners, ctx.obj, ctx), **given)
        except (KeyboardInterrupt, typer.Abort) as error:  # typer would end with 130, and say nothing
            raise Interrupted(error) from error

    taken = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    common = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        for name, (kind, default) in _OPTIONS.items()
    ]
    parameters = [context, *taken, *common]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__, command.__name__ = function.__doc__, function.__name__
    return command


# --- used wrongly -----------------------------------------------------------------------------------------------------


def _used_wrongly(error: typer.TyperException) -> UsedWrongly:
    """What typer found wrong with the command line, as an error of ours."""
    context: Any = getattr(error, "ctx", None)
    where = context.command_path if context else "seamark"
    option = getattr(error, "option_name", None)
    if option is not None and hasattr(error, "possibilities"):  # typer keeps its class private
        known = [name for parameter in context.command.params for name in parameter.opts if name.startswith("--")]
        known = [*dict.fromkeys([*known, "--help"])]
        return UsedWrongly(f"`{where}` has no option '{option}'.", hint=did_you_mean(option, known, "Options"))
    return UsedWrongly(error.format_message(), hint=f"`{where} --help` shows how to use it.")
