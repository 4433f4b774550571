"""The command line. Each command is a few lines here; what it does lives in its own module, imported when it is asked for."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from deployments.cli import size
from deployments.kubernetes.cli import app as kubernetes
from memory.errors import ConfigError, StrataError
from memory.policy import Isolation

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Strata: the memory of other people's assistants.")
tenants = typer.Typer(no_args_is_help=True, help="Tenants are declared by files (configs/tenants/*.yaml).")
app.add_typer(tenants, name="tenants")
keys = typer.Typer(no_args_is_help=True, help="The master key and users' keys.")
app.add_typer(keys, name="keys")
receipts = typer.Typer(no_args_is_help=True, help="Proofs of erasures.")
app.add_typer(receipts, name="receipts")
app.add_typer(kubernetes, name="kubernetes")
console = Console()


class TopologyName(StrEnum):
    SPLIT = "split"
    FUSED = "fused"


class TransportName(StrEnum):
    HAPROXY = "haproxy"
    PYTHON = "python"


ROOT = Path(__file__).resolve().parents[2]
ConfigFile = Annotated[Path, typer.Option("--config", "-c", help="The Serve file to run.")]
Url = Annotated[str, typer.Option("--url", help="Where Strata answers.", envvar="STRATA_URL")]
Key = Annotated[
    str | None, typer.Option("--key", help="A tenant key; the demo tenant's by default.", envvar="STRATA_KEY")
]
LOCAL = ROOT / "configs" / "local.yaml"
TOPOLOGIES = {TopologyName.SPLIT: LOCAL, TopologyName.FUSED: ROOT / "configs" / "fused.yaml"}
LOCAL_URL = "http://127.0.0.1:8700"


@app.command()
def up(
    config: Annotated[Path | None, typer.Option("--config", "-c", help="The Serve file to run.")] = None,
    topology: Annotated[
        TopologyName | None, typer.Option(help="split: three applications; fused: one process, for a small machine.")
    ] = None,
    transport: Annotated[
        TransportName | None, typer.Option(help="haproxy, or python: Serve's own proxy. The environment's by default.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait until ready.")] = 180.0,
) -> None:
    """Prepare what is missing, start everything, print how to try it. Ctrl-C stops all of it."""
    from deployments.cli.up import run

    if config is not None and topology is not None:
        raise ConfigError("--topology", "names one of the files in configs/; leave it out beside --config")
    file = config or TOPOLOGIES[topology or TopologyName.SPLIT]
    raise typer.Exit(run(file, timeout, console, transport.value if transport else None))


@app.command()
def down() -> None:
    """Stop a running Strata and its bundled session server."""
    from deployments.cli.down import stop

    raise typer.Exit(stop(console))


@app.command()
def status(
    url: Url = LOCAL_URL,
    once: Annotated[bool, typer.Option("--once", help="One look; the default where there is no terminal.")] = False,
    interval: Annotated[float, typer.Option(min=0.2, max=60, help="Seconds between two looks.")] = 2.0,
) -> None:
    """What runs, how fast, what waits, and whether each part answers; refreshed until Ctrl-C."""
    from deployments.cli.look import status as look

    raise typer.Exit(look(url, console, interval, once))


@app.command()
def demo(url: Url = LOCAL_URL, key: Key = None) -> None:
    """Play a bilingual dialogue of two sessions against the running service; 1 where memory did not do what it should."""
    from deployments.cli.demo import play

    raise typer.Exit(play(url, key, console))


@app.command()
def chat(url: Url = LOCAL_URL, key: Key = None, user: Annotated[str, typer.Option(help="Who speaks.")] = "me") -> None:
    """Type turns; watch verdicts and the context that a model would get."""
    from deployments.cli.chat import talk

    raise typer.Exit(talk(url, key, user, console))


@app.command()
def reindex(
    config: ConfigFile = LOCAL,
    model: Annotated[str | None, typer.Option(help="The model to embed with; the configured one by default.")] = None,
    drop: Annotated[str | None, typer.Option(metavar="VERSION", help="Drop a version that is not in use.")] = None,
) -> None:
    """Embed every entry anew with another model while Strata goes on answering; resumable."""
    from deployments.cli import reindex as command

    raise typer.Exit(command.run(config, model, console) if drop is None else command.drop(config, drop, console))


@app.command()
def versions(config: ConfigFile = LOCAL) -> None:
    """Which embedding models there are indexes of."""
    from deployments.cli.reindex import show

    raise typer.Exit(show(config, console))


@app.command()
def doctor(
    config: ConfigFile = LOCAL,
    full: Annotated[bool, typer.Option("--full", help="Compare every entry of index and records.")] = False,
) -> None:
    """Look at every store, its settings, the schema, the model and the index, and say what to do; 1 where something is bad."""
    from deployments.cli.doctor import run

    raise typer.Exit(run(config, full, console))


@app.command()
def migrate(
    config: ConfigFile = LOCAL,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; wait until the schema is this release's.")
    ] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait for a database that is away or behind.")] = 60.0,
    unreachable: Annotated[
        float | None, typer.Option(help="With --check: give up with 0 when nothing has answered for so many seconds.")
    ] = None,
) -> None:
    """Bring the records to this release's schema."""
    from deployments.cli.migrate import run

    raise typer.Exit(run(config, check, wait, unreachable, console))


app.command("size")(size.command)


@tenants.command("apply")
def tenants_apply(config: ConfigFile = LOCAL, folder: Annotated[Path | None, typer.Option("--dir")] = None) -> None:
    """Make the store equal to the files."""
    from deployments.cli.tenants import apply

    raise typer.Exit(apply(config, folder, console))


@tenants.command("list")
def tenants_list(config: ConfigFile = LOCAL) -> None:
    """The tenants in the store."""
    from deployments.cli.tenants import show

    raise typer.Exit(show(config, console))


@tenants.command("key")
def tenants_key(tenant: str, config: ConfigFile = LOCAL, name: Annotated[str | None, typer.Option()] = None) -> None:
    """Print a tenant's key, read through its reference."""
    from deployments.cli.tenants import key

    raise typer.Exit(key(config, tenant, name))


@tenants.command("erase")
def tenants_erase(
    tenant: str,
    confirm: Annotated[str, typer.Option(help="The tenant's id once more.")],
    config: ConfigFile = LOCAL,
    wait: Annotated[bool, typer.Option("--wait", help="Until every store is verified empty.")] = False,
) -> None:
    """Erase a tenant with all its users, in every store, for good."""
    from deployments.cli.erasures import erase

    raise typer.Exit(erase(config, tenant, confirm, wait, console))


@tenants.command("move")
def tenants_move(
    tenant: str,
    to: Annotated[Isolation, typer.Option(help="A shard of the shared collection, or a collection of its own.")],
    config: ConfigFile = LOCAL,
) -> None:
    """Move a tenant's index entries while Strata goes on; resumable."""
    from deployments.cli.moves import run

    raise typer.Exit(run(config, tenant, to, console))


@keys.command("rewrap")
def keys_rewrap(config: ConfigFile = LOCAL) -> None:
    """Wrap every user's key under the first master key; the index is not touched. Resumable."""
    from deployments.cli.keys import rewrap

    raise typer.Exit(rewrap(config, console))


@keys.command("rotate")
def keys_rotate(
    tenant: Annotated[str, typer.Option()], user: Annotated[str, typer.Option()], config: ConfigFile = LOCAL
) -> None:
    """Give one user a new key and seal his entries with it. For a minute his recall may find less."""
    from deployments.cli.keys import rotate

    raise typer.Exit(rotate(config, tenant, user, console))


@receipts.command("show")
def receipts_show(
    receipt: str,
    tenant: Annotated[str, typer.Option()],
    config: ConfigFile = LOCAL,
    as_json: Annotated[bool, typer.Option("--json", help="The whole document with its signature.")] = False,
) -> None:
    """What an erasure removed from each store, and whether it is complete."""
    from deployments.cli.erasures import show

    raise typer.Exit(show(config, tenant, receipt, as_json, console))


def main(command: typer.Typer = app) -> None:
    """Runs a command line; one red line where a StrataError ends it."""
    try:
        command()
    except StrataError as error:
        said = str(error) if isinstance(error, ConfigError) else error.detail
        Console(stderr=True).print(f"[red]strata:[/red] {said}", highlight=False, soft_wrap=True)
        sys.exit(1)
