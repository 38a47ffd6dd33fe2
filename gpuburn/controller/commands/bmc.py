"""gpuburn bmc: the playbooks' look at a host's BMC: before the burn-in, at its first hardware finding, after it."""

from __future__ import annotations

import json
import time
from typing import Annotated, cast

import typer

from gpuburn.controller import options


def add(app: typer.Typer) -> None:
    app.command()(bmc)


def bmc(
    run: options.Run,
    moment: Annotated[str, typer.Argument(help="start, finding or end")],
    reports: options.Reports = options.HERE,
) -> None:
    """Ask every host's BMC (variables with the password on standard input); prints {host: "" or why it was silent}."""
    from gpuburn import strict
    from gpuburn.bmc import MOMENTS, Moment
    from gpuburn.controller import standard_input
    from gpuburn.controller.bmc import fleet
    from gpuburn.controller.run import Run

    strict.known(moment, MOMENTS, "bmc: moment")
    variables = standard_input.said().variables
    print(json.dumps(fleet.ask(Run.of(reports, run), cast(Moment, moment), variables, time.time())))
