"""The `dpaudit` command."""

from __future__ import annotations

from typing import Any

import click

from dpaudit.cli.audit import gate, report, run
from dpaudit.cli.catalogue import init, list_, schema, show
from dpaudit.cli.data import data
from dpaudit.errors import DpauditError, RunError

USER_ERROR, RUN_FAILED = 2, 3


class _Group(click.Group):
    """Turns errors into exit codes: 2 for what the user can mend, 3 for a run that failed."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except RunError as error:
            click.echo(f"dpaudit: {error}", err=True)
            ctx.exit(RUN_FAILED)
        except DpauditError as error:
            click.echo(f"dpaudit: {error}", err=True)
            ctx.exit(USER_ERROR)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            click.echo("dpaudit: interrupted; nothing was written", err=True)
            ctx.exit(RUN_FAILED)
        except Exception:
            # Python's own exit code 1 would read as a failed gate.
            import traceback

            traceback.print_exc()
            click.echo("dpaudit: this is a defect of dpaudit; please report it", err=True)
            ctx.exit(RUN_FAILED)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="dpaudit")
def main() -> None:
    """Attack and audit recommender systems that claim differential privacy.

    Exit codes: 0 gates pass, 1 a gate failed, 2 usage, config or data error, 3 the run failed,
    4 inconclusive.
    """


for command in (run, report, gate, list_, show, init, schema, data):
    main.add_command(command)
