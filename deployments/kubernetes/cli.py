"""`strata kubernetes …`: what is generated, what is rendered, what is wrong with it."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from memory.errors import ConfigError

app = typer.Typer(no_args_is_help=True, help="Manifests: generate, render, look at them before they are applied.")
console = Console(highlight=False, soft_wrap=True)
ROOT = Path(__file__).resolve().parents[2]
Root = Annotated[Path, typer.Option("--root", help="A checkout of Strata.")]


@app.command()
def render(root: Root = ROOT) -> None:
    """Write what is generated under k8s/: the Serve configuration of each overlay, the environment of Ray's pods, the alert rules."""
    from deployments.kubernetes.generate import write

    changed = write(root)
    for path in changed:
        console.print(f"written: {path.relative_to(root)}", markup=False)
    if not changed:
        console.print("Nothing has changed.")


@app.command()
def check(root: Root = ROOT) -> None:
    """1 where a generated file is not what `render` would write, or an overlay has something that nobody else notices."""
    from deployments.kubernetes.generate import overlays, stale
    from deployments.kubernetes.kustomize import render as rendered

    old = stale(root)
    for path in old:
        console.print(
            f"{path.relative_to(root)}: is not what its sources say: run `strata kubernetes render`", markup=False
        )
    found = 0 if old else sum(_told(rendered(overlay), f"{overlay.name}: ") for overlay in overlays(root))
    raise typer.Exit(1 if old or found else 0)


@app.command()
def build(overlay: Annotated[str, typer.Argument(help="dev, gpu, ha, or a folder.")], root: Root = ROOT) -> None:
    """Print every object of an overlay, as `kubectl kustomize` would."""
    from deployments.kubernetes.kustomize import render as rendered
    from deployments.kubernetes.serve_config import yaml_text

    print("---\n".join(yaml_text(document) for document in rendered(_folder(overlay, root))), end="")


@app.command()
def lint(
    files: Annotated[
        list[Path], typer.Argument(help="Rendered manifests, folders with a kustomization, or - for standard input.")
    ],
) -> None:
    """Say what is wrong and nobody else says: the API server and KubeRay take all of it. 1 where anything is."""
    from deployments.kubernetes.kustomize import parse_documents, read_documents
    from deployments.kubernetes.kustomize import render as rendered

    documents = []
    for file in files:
        if str(file) == "-":
            documents += parse_documents(sys.stdin.read(), "standard input")
        else:
            documents += rendered(file) if file.is_dir() else read_documents(file)
    raise typer.Exit(1 if _told(documents, "") else 0)


@app.command()
def preflight(overlay: Annotated[str, typer.Argument(help="dev, gpu, ha, or a folder.")], root: Root = ROOT) -> None:
    """Ask the cluster of kubectl's context for what an overlay needs: kinds, the Gateway class, Secrets with their keys. 1 where
    something is missing."""
    from deployments.kubernetes.kustomize import render as rendered
    from deployments.kubernetes.lint.documents import of_kind
    from deployments.kubernetes.preflight import look, missing

    documents = rendered(_folder(overlay, root))
    [service] = of_kind(documents, "RayService")
    found = list(missing(documents, look(service["metadata"].get("namespace", "default"))))
    for finding in found:
        console.print(str(finding), markup=False)
    console.print("The cluster has what it takes." if not found else f"{len(found)} missing.")
    raise typer.Exit(1 if found else 0)


@app.command()
def secrets(
    overlay: Annotated[str, typer.Argument(help="dev, gpu, ha, or a folder.")],
    values: Annotated[
        Path | None,
        typer.Option(help="NAME=value lines: addresses and keys of managed stores (STRATA_SESSIONS_URL, ...)."),
    ] = None,
    root: Root = ROOT,
) -> None:
    """Print the Secrets that an overlay names, with new random keys: pipe them to `kubectl create -f -`, and keep a copy safe."""
    from deployments.kubernetes.kustomize import render as rendered
    from deployments.kubernetes.secrets import read_values, secret_documents
    from deployments.kubernetes.serve_config import yaml_text

    given = read_values(values) if values else {}
    documents = secret_documents(rendered(_folder(overlay, root)), given)
    print("---\n".join(yaml_text(document) for document in documents), end="")


def _told(documents: list[dict[str, object]], prefix: str) -> int:
    from deployments.kubernetes.lint import findings

    found = findings(documents)
    for finding in found:
        console.print(f"{prefix}{finding}", markup=False)
    if not found:
        console.print(f"{prefix}{len(documents)} objects, nothing found.", markup=False)
    return len(found)


def _folder(overlay: str, root: Path) -> Path:
    folder = Path(overlay) if Path(overlay).is_dir() else root / "k8s" / "overlays" / overlay
    if not (folder / "kustomization.yaml").is_file():
        raise ConfigError(
            overlay, f"is no overlay of {root / 'k8s' / 'overlays'} and no folder with a kustomization.yaml"
        )
    return folder
