"""gpuburn: resolve plans, verify what hosts bring back, decide, report. Files in, files out."""

from __future__ import annotations

import functools
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Annotated

import typer

from gpuburn import __version__
from gpuburn.controller import commands
from gpuburn.strict import Refused

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, help=__doc__
)
skus = typer.Typer(no_args_is_help=True, help="The GPU models that this version knows.")
app.add_typer(skus, name="sku")

RunId = Annotated[str, typer.Option("--run", help="Run id, <UTC>-<4 hex>.")]
Reports = Annotated[Path, typer.Option("--reports", help="Where runs are kept.")]
HERE = Path("reports")


@app.command()
def expect(
    run: RunId, reports: Reports = HERE, source: str = "inventory/hosts.yml", check: bool = False, wait: bool = True,
    back: bool = False,
) -> None:  # fmt: skip
    """Check every host's variables (standard input) and write down who is expected. --check writes nothing."""
    from gpuburn.controller import again, baselines, preflight, standard_input, whole_run
    from gpuburn.controller.manifest import held
    from gpuburn.controller.run import BEGAN, Run

    said = standard_input.said()
    hosts = preflight.expect(said.variables, source, said.wrong)
    preflight.from_command_line(hosts, run, str(reports.resolve()), wait, source)
    given = whole_run.given([(host.name, host.site) for host in hosts], source)
    held.listed(given.manifest, [host.expected() for host in hosts], source, given.manifest_file)
    where = Run.of(reports, run)
    if back and not (where.folder / "expected.json").exists():
        raise Refused(f"run {run} is not in {reports}; to come back, give its id and its -e gpuburn_reports_dir=")
    if back:
        again.everyone(where, [host.name for host in hosts])
    preflight.judging(where, hosts, source)
    if not check:
        whole_run.keep(where, given)
        where.expect([host.expected() for host in hosts], source)
        baselines.keep(where, [host.site.baseline for host in hosts], time.time())
        where.note(time.time(), BEGAN, hosts=len(hosts), expected=where.expected_digest(), **given.digests())
    print(f"{len(hosts)} host(s) expected in run {run}")


@app.command()
def collect(run: RunId, reports: Reports = HERE) -> None:
    """Verify and judge again what the hosts sent home; prints {host: verdicts or the refusal}."""
    from gpuburn.controller import reach
    from gpuburn.controller.run import Run

    print(json.dumps(reach.collect(Run.of(reports, run), time.time())))


@app.command()
def report(run: RunId, reports: Reports = HERE, machine: Annotated[bool, typer.Option("--json")] = False) -> None:
    """Decide and write reports/<run>/: index.html, a page per host, findings.csv, report.json. Exit: the decisions."""
    from gpuburn.controller import account, report as pages, status
    from gpuburn.controller.run import Run

    where = Run.of(reports, run)
    accounts, index = pages.make(where, time.time())
    if machine:
        print(account.told(accounts))
    else:
        for one in accounts:
            print(f"{one.expected.host:24} {one.decision:14} {one.reason}")
        print(f"report: {index}")
    if (state := pages.journal_state(where)).startswith(pages.UNSOUND):
        print(f"gpuburn: {where.journal}: {state}", file=sys.stderr)
    raise status.Ended(status.of(one.decision for one in accounts))


@app.command()
def verify(folder: Path, plan_file: Annotated[Path, typer.Argument(metavar="PLAN")]) -> None:
    """Verify an unsealed run folder against the plan that was sent: digests, numbers, findings. Exit 0 if all hold."""
    from gpuburn.controller.collect import collect as check

    taken = check(folder, plan_file)
    for one in taken.findings:
        print(f"{one.verdict:14} {one.step:18} {one.about:32} {one.subject:8} {one.why}")
    print(", ".join(f"{profile}: {verdict}" for profile, verdict in taken.verdicts.items()))


@skus.command("list")
def sku_list() -> None:
    """One a line: id, architecture, memory, PCI device ids, and how many numbers may reject, warn, inform."""
    from gpuburn.controller import skus as tables

    print(tables.listed())


@skus.command("show")
def sku_show(name: str) -> None:
    """One SKU's numbers: what they are, how and by whom they were found, and which limit they could serve."""
    from gpuburn.controller import skus as tables

    print(tables.shown(name))


@app.command()
def schema(name: Annotated[str, typer.Argument(help="plan or result")]) -> None:
    """The JSON Schema of a published document."""
    from gpuburn import plan as plans, result as results, schema as schemas
    from gpuburn.strict import known

    kinds: dict[str, type] = {"plan": plans.Plan, "result": results.Result}
    known(name, kinds, "schema")
    print(json.dumps(schemas.schema(kinds[name], f"{name}/1"), indent=1, sort_keys=True))


@app.command()
def variables() -> None:
    """Every variable that an inventory may set."""
    from gpuburn.controller import site

    for name, default, doc in site.document():
        print(f"{name:26} {default:22} {doc}")


@app.command()
def wheel(cache: Path) -> None:
    """Build the agent's wheel from this tree, once per state of the tree; prints {path, sha256, built}."""
    from gpuburn.controller import wheel as wheels

    print(wheels.told(cache))


def _version(value: bool) -> None:
    if value:
        print(f"gpuburn {__version__}")
        raise typer.Exit


@app.callback()
def _options(version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False) -> None:
    """Burn-in and acceptance of GPU servers: plans, verdicts, decisions, reports."""


@functools.cache
def program() -> typer.Typer:
    """Every command: those here and those in commands/."""
    commands.add(app)
    return app


def main(arguments: list[str] | None = None) -> None:
    """Refused input is one line (or one line a host) on standard error. Exit statuses: status.py."""
    from gpuburn.controller import status

    try:
        program()(arguments)
    except SystemExit as ended:  # typer's own: 0 after help, 2 for usage, 1 where the reader of our output has gone
        sys.exit(status.ACCEPTED if not ended.code else status.USAGE if ended.code == 2 else status.INTERNAL)
    except status.Ended as ended:
        sys.exit(ended.status)
    except Refused as error:
        print(f"gpuburn: {error}", file=sys.stderr)
        sys.exit(status.USAGE)
    except Exception:  # noqa: BLE001  (the last place: told in full, and never taken for a decision)
        traceback.print_exc()
        sys.exit(status.INTERNAL)


if __name__ == "__main__":
    main()
