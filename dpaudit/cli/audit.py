"""`dpaudit run`, `report` and `gate`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpaudit.core.errors import ConfigError, RunError
from dpaudit.core.files import check_writable, own_folder, write_set, write_text

if TYPE_CHECKING:
    from dpaudit.record.result import AuditResult

EXIT_CODES = {"pass": 0, "fail": 1, "inconclusive": 4}
_STANDARD_OUTPUT = Path("-")
_FILES = {"html": "report.html", "md": "report.md"}


@click.command()
@click.argument("config", required=False, type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Output folder for record.json, report.html and report.md.  "
    "[default: dpaudit-out/NAME of the config]",
)
@click.option(
    "--seed",
    metavar="NUMBER|entropy",
    help="Replace the config's seed; entropy draws one that the record does not store.  "
    "[default: the config's, or drawn]",
)
@click.option(
    "-s",
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Replace a value of the config, e.g. -s audit.trials=1000.",
)
@click.option(
    "--report",
    "reports",
    multiple=True,
    metavar="FORMAT=FILE",
    help="Write a further report, e.g. --report html=leakage.html; - is standard output.",
)
@click.option(
    "--threads",
    type=click.IntRange(1),
    default=lambda: os.cpu_count() or 1,
    help="Number of threads; results do not depend on it.  [default: all cores]",
)
@click.option(
    "--allow-code", is_flag=True, help="Run the Python code that the config names in [defense]."
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors.")
@click.pass_context
def run(
    ctx: click.Context,
    config: Path | None,
    output: Path | None,
    seed: str | None,
    overrides: tuple[str, ...],
    reports: tuple[str, ...],
    threads: int,
    allow_code: bool,
    quiet: bool,
) -> None:
    """Run the audit described by CONFIG; the exit code is the outcome of its gates.

    Without CONFIG, dpaudit.toml or [tool.dpaudit] of pyproject.toml in the current folder is used.
    """
    from dpaudit.auditor.plan import check_gates
    from dpaudit.auditor.run import run_audit
    from dpaudit.cli.progress import Bar
    from dpaudit.config import load as config_file
    from dpaudit.core.messages import plain
    from dpaudit.record import storage as record

    path = config or config_file.find(Path())
    if seed is not None:
        overrides = (*overrides, f"seed={_seed(seed)}")
    extra = [_parse_report(option) for option in reports]
    checked = config_file.load(path, overrides)
    check_gates(checked, f"{path}: ")
    folder = output or own_folder(path.stem)
    targets = [(name, folder / file) for name, file in _FILES.items()] + extra
    _check_targets([folder / record.NAME, *(target for _, target in targets)])
    with Bar(enabled=not quiet) as bar:
        if allow_code:
            sys.path.insert(0, str(path.parent.resolve()))  # as Python does for a script
        result = run_audit(checked, threads=threads, progress=bar, allow_code=allow_code)
    # Gates are judged before any report is rendered, so no report can change their outcome.
    written = {folder / record.NAME: record.render(result)}
    for name, target in targets:
        try:
            text = _render(name, result)
        except Exception as error:  # a plug-in may raise anything, and costs no finished run
            write_set(written)
            raise RunError(
                f"report {name!r} failed ({type(error).__name__}: {error}); the record is in "
                f"{folder}: render another with 'dpaudit report {folder} --format md'"
            ) from error
        if target == _STANDARD_OUTPUT:
            click.echo(text, nl=False)
        else:
            written[target] = text
    write_set(written)
    if not quiet:
        _show(result)
        click.echo(f"Seed: {result.config['seed']}")
        click.echo(f"Record and reports: {plain(str(folder))}")
    ctx.exit(EXIT_CODES[result.outcome])


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--format", "name", default="html", show_default=True, help="html, md or json.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="[default: standard output]",
)
def report(folder: Path, name: str, output: Path | None) -> None:
    """Render a report from the record of a finished run in FOLDER; nothing is run again."""
    from dpaudit.record import storage as record

    text = _render(name, record.load(folder))
    if output in (None, _STANDARD_OUTPUT):
        click.echo(text, nl=False)
    else:
        write_text(output, text)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--policy",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A TOML file with [[gate]] tables to use instead of the gates of the run.",
)
@click.pass_context
def gate(ctx: click.Context, folder: Path, policy: Path | None) -> None:
    """Evaluate gates on the finished run in FOLDER; the exit code is their outcome."""
    from dpaudit.auditor.gate import judge
    from dpaudit.config import load as config_file
    from dpaudit.core.messages import plain
    from dpaudit.record import storage as record
    from dpaudit.record.result import worst

    result = record.load(folder)
    gates = result.gates
    if policy is not None:
        rules = config_file.load_policy(policy)
        gates = [judge(rule, result.points, result.measurements) for rule in rules]
    for found in gates:
        click.echo(f"{found.outcome.upper():12} {plain(found.rule)}\n{'':12} {plain(found.reason)}")
    if not gates:
        click.echo("no gates: add [[gate]] to the config or give --policy")
    ctx.exit(EXIT_CODES[worst([found.outcome for found in gates])])


def _seed(text: str) -> str:
    if text == "entropy" or (text.isascii() and text.isdecimal() and int(text) < 2**64):
        return text if text == "entropy" else str(int(text))
    raise ConfigError(f"the option --seed {text!r} is neither a 64-bit integer nor entropy")


def _parse_report(option: str) -> tuple[str, Path]:
    from dpaudit.core import registry

    name, equals, file = option.partition("=")
    if not equals or not file:
        raise ConfigError(f"the option --report {option!r} is not FORMAT=FILE: e.g. html=out.html")
    registry.load("reports", name)
    return name, Path(file)


def _render(name: str, result: AuditResult) -> str:
    from dpaudit.core import registry

    text: str = registry.load("reports", name)(result)
    return text


def _check_targets(targets: list[Path]) -> None:
    """Refuse paths that cannot be written, and two outputs with the same path."""
    check_writable(targets)
    files = [target.resolve() for target in targets if target != _STANDARD_OUTPUT]
    twice = [file for file in files if files.count(file) > 1]
    if twice:
        raise ConfigError(f"two outputs are written to {twice[0]}: give --report another file")


def _show(result: Any) -> None:
    from rich.console import Console

    from dpaudit.reports.render.console import show as show_result

    show_result(result, Console())
