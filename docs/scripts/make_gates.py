"""Write docs/results/gates.md: what one gate says on each attack, of each kind of audit.

Run it with `python docs/scripts/make_gates.py FOLDER`; the audits are those of `gates.toml`. FOLDER
keeps their records, and what it lacks is run.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

# It stands beside this file.
from pages import audited, page, write

from dpaudit.config.load import checked
from dpaudit.record.result import AuditResult
from dpaudit.reports.render.markdown import table_text
from dpaudit.reports.table import Table

HEAD = """Each section is one small audit on generated ratings, with a gate on each of its attacks.
A gate passes, fails or is inconclusive, which depends on the threshold and on the few trials here;
what matters is that its sentence names the model, the attack, the number with its interval, the
threshold, and what would decide it or what a pass rests on. The audits are in
`docs/scripts/gates.toml`; [the guide](../guides/gates.md) says how a gate judges.
"""


def main(folder: Path) -> None:
    """Run the audits whose records are missing, and write the page."""
    text = (Path(__file__).parent / "gates.toml").read_text(encoding="utf-8")
    audits = {audit.pop("name"): checked(audit) for audit in tomllib.loads(text)["audit"]}
    sections = [
        section(name, audited(config, folder / name.replace(" ", "-")))
        for name, config in audits.items()
    ]
    command = "docs/scripts/make_gates.py FOLDER"
    write("gates", page("What a gate on each attack says", command, "\n".join([HEAD, *sections])))


def section(name: str, result: AuditResult) -> str:
    """Return the outcomes and the sentences of the gates of one audit."""
    models = ", ".join(f"`{model.defense}`, {model.variant}" for model in result.models)
    cells = [[gate.rule, gate.outcome, gate.reason] for gate in result.gates]
    table = Table(caption="", header=["gate", "outcome", "sentence"], cells=cells)
    return f"## {name.capitalize()}\n\nModels: {models}.\n\n{table_text(table)}\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
