"""`dpaudit gate` and `diff`: gates on a finished run, and what changed since an earlier one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpaudit.cli import options
from dpaudit.cli.options import PathType
from dpaudit.cli.writing import checked, conclude, deliver, echo, render, report_option, screen
from dpaudit.core.exit_codes import exit_code
from dpaudit.core.messages import plain
from dpaudit.core.rounding import at_least

if TYPE_CHECKING:
    from dpaudit.record.comparison import Comparison
    from dpaudit.record.result import AuditResult, RunOutcome
    from dpaudit.reports.palette import Word

# Of a comparison with a baseline; 'dpaudit diff --format json' prints all of it.
_COMPARED = {"outcome", "reason"}


@click.command()
@click.argument("folder", type=PathType())
@click.option(
    "--policy",
    type=PathType(dir_okay=False),
    help="A TOML file with [[gate]] tables to use instead of the gates of the run.",
)
@options.waivers("of the run")
@click.option(
    "--baseline",
    type=PathType(),
    help="The folder or record of an earlier run: what is certified to be worse, or newly false, "
    "fails; what is not comparable is undecided.",
)
@report_option
@options.style("json")
@click.option("-q", "--quiet", is_flag=True, help="Print no text; JSON and reports are printed.")
@click.pass_context
def gate(
    ctx: click.Context,
    folder: Path,
    policy: Path | None,
    waivers: Path | None,
    baseline: Path | None,
    reports: tuple[str, ...],
    style: str,
    quiet: bool,
) -> None:
    """Evaluate gates on the finished run in FOLDER; the exit code is their outcome.

    Waivers are judged on the day of the evaluation: those that were active when the run was made
    may have expired. A baseline adds to the gates and excuses nothing that fails without it.
    """
    from dpaudit.auditor.gate import check_ids, judge_run
    from dpaudit.config import load as config_file
    from dpaudit.record import storage as record
    from dpaudit.record.comparison import compare
    from dpaudit.record.result import concluded, today

    asked = checked(reports)
    recorded = record.load(folder)
    gates, origin = (None, None) if policy is None else config_file.load_policy(policy)
    result = judge_run(
        recorded,
        today(),
        gates=gates,
        waivers=None if waivers is None else config_file.load_waivers(waivers),
    )
    if waivers is not None:
        known = {verdict.id for verdict in result.verdicts}
        known |= {gate.id for gate in (*recorded.gates, *result.gates)}
        check_ids(result.waivers, known, f"{waivers}: ")
    if origin is not None:
        places = {**result.origin, **origin.places([], result.gates)}
        result = result.model_copy(update={"origin": places})
    compared = None if baseline is None else compare(record.load(baseline), result)
    outcome = concluded([compared.outcome], result.outcome) if compared else result.outcome

    def write() -> None:
        deliver([file for report in asked for file in render(*report, result, compared)])

    def show(_: bool) -> None:
        if style == "json":
            echo(_json(result, compared, outcome))
        elif not quiet:
            _tell(result, compared, outcome)

    ctx.exit(conclude(outcome, write, show, require_decision=result.require_decision))


def _json(result: AuditResult, compared: Comparison | None, outcome: RunOutcome) -> str:
    """Return what decided the outcome."""
    decision: dict[str, Any] = {
        "outcome": outcome,
        "exit_code": exit_code(outcome, require_decision=result.require_decision),
        **json.loads(result.model_dump_json(include={"verdicts", "gates", "waivers"})),
        "baseline": compared and json.loads(compared.model_dump_json(include=_COMPARED)),
    }
    return json.dumps(decision, indent=1)


def _tell(result: AuditResult, compared: Comparison | None, outcome: RunOutcome) -> None:
    from rich.table import Table
    from rich.text import Text

    from dpaudit.reports import palette
    from dpaudit.reports.render import comparison
    from dpaudit.reports.sections.outcome import decision_of

    console = screen()
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for word, lines in _findings(result):
        table.add_row(Text(word.shown, word.style), Text("\n".join(map(plain, lines))))
    console.print(table)
    if not result.gates:
        console.print("no gates: add [[gate]] to the config or give --policy", markup=False)
    if compared is not None:
        console.print()
        comparison.show(compared, console, everything=False)
    decision = decision_of(result)
    # A baseline that excuses nothing may decide more than the run alone.
    reason = compared.reason if compared and outcome != result.outcome else decision.reason
    word = palette.run(result, outcome)
    console.print(Text.assemble("\n", (word.shown, word.style), f"  {plain(reason)}"))


def _findings(result: AuditResult) -> Iterator[tuple[Word, list[str]]]:
    """Yield a word and lines for each false claim, gate, and waiver that needs attention."""
    from dpaudit.record.result import accepted
    from dpaudit.reports import digest, palette
    from dpaudit.reports.sections.verdicts import waiver_sentence

    active = accepted(result.waivers)
    waived = {name: [waiver_sentence(waiver, result)] for name, waiver in active.items()}
    tolerated = "audit.fail_on_false_claim = false: it stops nothing"
    expected = [] if result.fail_on_false_claim else [tolerated]
    for claim in result.verdicts:
        if claim.verdict == "false":
            certified = at_least(claim.certified or 0.0)
            said = f"certified ε at least {certified}, above the claimed {claim.claimed:g}"
            word = palette.WAIVER["active"] if claim.id in waived else palette.CLAIM["false"]
            yield word, [claim.id, said, *waived.get(claim.id, expected)]
    for gate in result.gates:
        why = waived.get(gate.id, []) if gate.outcome != "pass" else []
        yield (
            palette.WAIVER["active"] if why else palette.GATE[gate.outcome],
            [gate.rule, digest.why(gate, result), *why, f"id: {gate.id}"],
        )
    for waiver in result.waivers:
        if waiver.state != "active":
            yield palette.WAIVER[waiver.state], [waiver_sentence(waiver, result)]


@click.command()
@click.argument("baseline", type=PathType())
@click.argument("folder", type=PathType())
@options.style("md", "json")
@click.option(
    "--all", "everything", is_flag=True, help="Show also what is the same and cannot be told."
)
def diff(baseline: Path, folder: Path, style: str, everything: bool) -> None:
    """Compare the finished run in FOLDER with that in BASELINE, by intervals and verdicts.

    The exit code does not depend on the comparison; for that, use 'dpaudit gate --baseline'.
    """
    from dpaudit.record import storage as record
    from dpaudit.record.comparison import compare
    from dpaudit.reports.render import comparison

    compared = compare(record.load(baseline), record.load(folder))
    if style == "json":
        echo(compared.model_dump_json(indent=1))
    elif style == "md":
        echo(comparison.render(compared), nl=False)
    else:
        comparison.show(compared, screen(), everything=everything)
