"""The command ``signwise``: one module per subcommand, each with ``add(subparsers)`` and ``run(arguments)``.

A mistake of the user prints one sentence to standard error and exits with code 2; a defect keeps its traceback. A
command imports what it needs when it runs, so that ``signwise --help`` is fast and works without PyTorch.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from signwise.errors import SignwiseError
from signwise.invocation import install
from signwise.text import unknown_name

# In the order in which a newcomer meets them. Each is a module of this package; once imported, the names `list`, `eval`
# and `compile` refer to those modules here, not to Python's builtins.
COMMANDS = (
    "quickstart",
    "list",
    "train",
    "eval",
    "compile",
    "export",
    "inspect",
    "bench",
    "generate",
    "reproduce",
    "plot",
    "report",
    "doctor",
)

# Packages of the extra "train", which a base installation lacks.
_OPTIONAL = ("torch", "rich", "tensorboard", "matplotlib")


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence and suggest the nearest command for an unknown one."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")

    def refuse(self, words: Sequence[str]) -> NoReturn:
        """The error for words that nothing understood: the nearest option of the first one that looks like one."""
        wrong = next((word for word in words if word.startswith("--")), words[0])
        if not wrong.startswith("--"):
            self.error(f"there is no place for {' '.join(words)}")
        name = wrong.partition("=")[0]
        nearest = difflib.get_close_matches(name, self._option_string_actions, n=1, cutoff=0.6)
        self.error(f"there is no option {name}" + (f": did you mean {nearest[0]}?" if nearest else ""))

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            raise argparse.ArgumentError(None, unknown_name("command", str(value), action.choices))
        super()._check_value(action, value)


_EPILOG = """Begin with: signwise quickstart
Each command has examples in its help: signwise train --help
"""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Keeps line breaks, and fits the longest command on one line with its description."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog)
        # argparse ignores the indentation of commands, and would break the line after the longest ones.
        self._action_max_length = 4 + max(map(len, COMMANDS))


def build_parser() -> Parser:
    """The parser with all commands."""
    return _parsers()[0]


def _parsers() -> tuple[Parser, dict[str, Parser]]:
    """The parser, and the parser of each command."""
    parser = Parser(
        prog="signwise",
        description="Train models with one-bit weights, pack them, and run them fast.",
        epilog=_EPILOG,
        formatter_class=_Formatter,
    )
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    subparsers = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND", parser_class=Parser)
    for name in COMMANDS:
        importlib.import_module(f"{__name__}.{name}").add(subparsers)
    for command in subparsers.choices.values():
        # Accept --debug after the command too, where people add it when something has gone wrong. SUPPRESS keeps the
        # default from overwriting a --debug before the command.
        command.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return parser, dict(subparsers.choices)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        arguments: the words after ``signwise``; ``sys.argv`` by default.
    """
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has closed the pipe. Redirect standard output so that the flush at exit is silent.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _run(arguments: Sequence[str] | None) -> int:
    parser, commands = _parsers()
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        commands.get(parsed.command, parser).refuse(unknown)
    if parsed.version:
        from signwise import __version__

        print(f"signwise {__version__}")
        return 0
    if parsed.command is None:
        parser.print_help()
        return 0
    try:
        return int(parsed.run(parsed))
    except (SignwiseError, KeyboardInterrupt, ModuleNotFoundError) as error:
        if parsed.debug:
            raise
        if isinstance(error, KeyboardInterrupt):
            print("signwise: interrupted", file=sys.stderr)
            return 130
        if isinstance(error, ModuleNotFoundError):
            if error.name not in _OPTIONAL:
                raise
            print(f"signwise: this needs {error.name}: {install(error.name)}", file=sys.stderr)
            return 2
        print(f"signwise: {error}", file=sys.stderr)
        return 2
