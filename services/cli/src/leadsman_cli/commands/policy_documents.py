"""`leadsman policy check` and `leadsman policy test`: what a policy says, and what it does, without a cluster."""

import sys
from pathlib import Path

import click

from leadsman.config.errors import DocumentError
from leadsman.config.policy_document import load_policy
from leadsman_cli.case_results import CaseResult, run_cases
from leadsman_cli.commands.options import output_option
from leadsman_cli.policy_cases import load_cases
from leadsman_cli.policy_tables import as_text, differences_table
from leadsman_cli.policy_warnings import warnings_about
from leadsman_cli.tables import print_table

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("files", nargs=-1, required=True, type=_FILE)
def check(files: tuple[Path, ...]) -> None:
    """Check policy FILES: their form, every key and value, and the types of their expressions.

    Prints one line for a good file and every problem of a bad one, each with its line. Warnings are about what is
    allowed and probably not meant.

    Exit code: 0 if all are good, 1 if one is not, 2 for any error.
    """
    bad = [file for file in files if not _check(file)]
    sys.exit(1 if bad else 0)


def _check(file: Path) -> bool:
    try:
        found, text = load_policy(file)
    except DocumentError as error:
        click.echo(str(error))
        return False
    rules = "1 rule" if len(found.rules) == 1 else f"{len(found.rules)} rules"
    click.echo(f"{file}: ok ({found.fingerprint}, {found.mode.value}, {rules})")
    for one in warnings_about(found, text):
        place = f"{file}:{one.line}" if one.line else str(file)
        click.echo(f"{place}: warning: {one.words}")
    return True


@click.command()
@click.argument("policy_file", metavar="POLICY", type=_FILE)
@click.argument("cases", nargs=-1, required=True, type=_FILE)
@output_option
def test(policy_file: Path, cases: tuple[Path, ...], output: str) -> None:
    """Try POLICY on the nodes and pods in CASES, and compare verdicts and scores with what they should be.

    CASES are documents of the kind SchedulingPolicyTest; services/cli/README.md describes them. Nothing is started
    and no cluster is needed.

    Exit code: 0 if every case came out as it should, 1 if one did not, 2 for any error.
    """
    found, _ = load_policy(policy_file)
    results = [result for file in cases for result in run_cases(found, load_cases(file))]
    if output == "json":
        click.echo(as_text(results, "json"))
    else:
        _show(results)
    sys.exit(0 if all(one.passed for one in results) else 1)


def _show(results: list[CaseResult]) -> None:
    for one in results:
        click.echo(f"{click.style('ok  ', 'green') if one.passed else click.style('FAIL', 'red')} ", nl=False)
        click.echo(f"{one.file}:{one.line} {one.name}")
        if not one.passed:
            print_table(differences_table(one.differences))
    failed = sum(not one.passed for one in results)
    click.echo(f"{len(results)} case{'' if len(results) == 1 else 's'}, {failed} failed")
