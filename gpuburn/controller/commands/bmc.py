"""gpuburn bmc: the playbooks' look at every host's BMC, before the burn-in and after it."""

from __future__ import annotations

import json
import time
from typing import Annotated

import typer

from gpuburn.controller import options


def add(app: typer.Typer) -> None:
    app.command()(bmc)


def bmc(
    run: options.Run,
    moment: Annotated[str, typer.Argument(help="start or end")],
    reports: options.Reports = options.HERE,
) -> None:
    """Ask every host's BMC (variables with the password on standard input); prints {host: "" or why it was silent}."""
    from gpuburn.controller import standard_input
    from gpuburn.controller.bmc import fleet
    from gpuburn.controller.run import Run
    from gpuburn.strict import Refused

    if moment != "start" and moment != "end":
        raise Refused(f"bmc: moment {moment!r}; wanted is start or end")
    variables = standard_input.said().variables
    print(json.dumps(fleet.ask(Run.of(reports, run), "start" if moment == "start" else "end", variables, time.time())))
