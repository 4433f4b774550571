"""`strata kubernetes` and `strata migrate` at the command line."""

import shutil
import threading
from pathlib import Path

import pytest
import yaml
from ray.autoscaler._private.kuberay.autoscaling_config import _derive_autoscaling_config_from_ray_cr
from typer.testing import CliRunner

from deployments.cli import migrate as migrate_command
from deployments.cli.main import app, console
from deployments.kubernetes.cli import app as kubernetes
from memory.errors import ConfigError
from storage.records import migrate
from storage.records.migrate import head_revision
from tests.k8s.offline import OVERLAYS, ROOT, objects, the

RUN = CliRunner()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for part in ("configs", "k8s", "dashboards"):
        shutil.copytree(ROOT / part, tmp_path / part)
    return tmp_path


def test_render_writes_what_changed_and_check_says_it(checkout: Path) -> None:
    production = checkout / "configs" / "production.yaml"
    production.write_text(
        production.read_text("utf-8").replace("request_timeout_s: 30", "request_timeout_s: 31"), "utf-8"
    )
    stale = RUN.invoke(kubernetes, ["check", "--root", str(checkout)])
    assert stale.exit_code == 1
    assert "k8s/overlays/dev/generated/serve.yaml: is not what its sources say" in stale.output
    written = RUN.invoke(kubernetes, ["render", "--root", str(checkout)])
    assert written.exit_code == 0
    assert written.output.count("written: ") == len(OVERLAYS)
    assert "request_timeout_s: 31" in (checkout / "k8s" / "overlays" / "ha" / "generated" / "serve.yaml").read_text(
        "utf-8"
    )
    assert "Nothing has changed" in RUN.invoke(kubernetes, ["render", "--root", str(checkout)]).output
    clean = RUN.invoke(kubernetes, ["check", "--root", str(checkout)])
    assert clean.exit_code == 0, clean.output


def test_a_new_overlay_needs_no_generated_files_to_begin_with(checkout: Path) -> None:
    shutil.copytree(checkout / "k8s" / "overlays" / "dev", checkout / "k8s" / "overlays" / "mine")
    shutil.rmtree(checkout / "k8s" / "overlays" / "mine" / "generated")
    assert RUN.invoke(kubernetes, ["render", "--root", str(checkout)]).exit_code == 0
    assert RUN.invoke(kubernetes, ["check", "--root", str(checkout)]).exit_code == 0


def test_sizes_that_change_roll_the_cluster(checkout: Path) -> None:
    overlay = checkout / "k8s" / "overlays" / "ha" / "kustomization.yaml"
    overlay.write_text(overlay.read_text("utf-8").replace("value: 14", "value: 15"), "utf-8")
    written = RUN.invoke(kubernetes, ["render", "--root", str(checkout)])
    assert written.output.split() == ["written:", "k8s/overlays/ha/generated/rolls.yaml"]


def test_lint_reads_files_folders_and_standard_input(tmp_path: Path) -> None:
    built = RUN.invoke(kubernetes, ["build", "ha"])
    assert [document["kind"] for document in yaml.safe_load_all(built.output)].count("RayService") == 1
    clean = RUN.invoke(kubernetes, ["lint", "-"], input=built.output)
    assert clean.exit_code == 0, clean.output
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(built.output.replace("minAvailable: 2", "minAvailable: 50%"), "utf-8")
    told = RUN.invoke(kubernetes, ["lint", str(wrong)])
    assert told.exit_code == 1
    assert "PodDisruptionBudget strata-api: spec: " in told.output
    assert RUN.invoke(kubernetes, ["lint", str(ROOT / "k8s" / "overlays" / "dev")]).exit_code == 0
    assert isinstance(RUN.invoke(kubernetes, ["build", "nowhere"]).exception, ConfigError)


def test_secrets_are_printed_for_kubectl(tmp_path: Path) -> None:
    printed = RUN.invoke(kubernetes, ["secrets", "dev"])
    assert printed.exit_code == 0
    secrets = list(yaml.safe_load_all(printed.output))
    assert {secret["kind"] for secret in secrets} == {"Secret"}
    assert {secret["metadata"]["namespace"] for secret in secrets} == {"strata"}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_ray_s_autoscaler_understands_the_groups(overlay: str) -> None:
    """Ray's own reading of the RayCluster that the operator makes: sizes, CPUs, GPUs and the labels that replicas ask for."""
    cluster = the(objects(overlay), "RayService")["spec"]["rayClusterConfig"]
    cluster_object = {"metadata": {"name": "strata-abcde", "namespace": "strata"}, "spec": cluster}
    config = _derive_autoscaling_config_from_ray_cr(cluster_object)
    types = config["available_node_types"]
    assert types[config["head_node_type"]]["resources"]["CPU"] == 0
    labels = {"api": "api", "models": "models", "gpu": "models"}
    for group in cluster["workerGroupSpecs"]:
        made = types[group["groupName"]]
        assert (made["min_workers"], made["max_workers"]) == (group["minReplicas"], group["maxReplicas"])
        assert made["labels"] == {"strata-group": labels[group["groupName"]]}
        assert made["resources"]["CPU"] >= 2
        assert made["resources"].get("GPU", 0) == (1 if group["groupName"] == "gpu" else 0)


# --- strata migrate


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STRATA_RECORDS_URL", f"sqlite:///{tmp_path / 'records.db'}")
    return ROOT / "k8s" / "overlays" / "dev" / "generated" / "serve.yaml"


def test_migrate_makes_the_schema_and_may_run_again(config: Path) -> None:
    for _ in range(2):
        done = RUN.invoke(app, ["migrate", "--config", str(config)])
        assert done.exit_code == 0, done.output
    assert RUN.invoke(app, ["migrate", "--config", str(config), "--check", "--wait", "0"]).exit_code == 0


def test_check_changes_nothing_and_says_what_is_missing(config: Path) -> None:
    for _ in range(2):
        behind = RUN.invoke(app, ["migrate", "--config", str(config), "--check", "--wait", "0"])
        assert isinstance(behind.exception, ConfigError)
        assert f"this release needs {head_revision()}" in str(behind.exception)


def test_check_goes_on_when_somebody_has_migrated(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate_command, "POLL_S", 0.05)
    timer = threading.Timer(0.3, migrate, [f"sqlite:///{tmp_path / 'records.db'}"])
    timer.start()
    try:
        assert migrate_command.run(config, True, 60.0, None, console) == 0
    finally:
        timer.join()


@pytest.mark.parametrize("check", [True, False])
def test_a_database_that_is_away_is_waited_for_and_then_named(
    config: Path, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    """P40: a Job waits by itself, so that an outage does not use up its tries."""
    monkeypatch.setenv("STRATA_RECORDS_URL", "mysql://strata:word@127.0.0.1:9/strata")
    monkeypatch.setattr(migrate_command, "POLL_S", 0.05)
    with pytest.raises(ConfigError) as error:
        migrate_command.run(config, check, 0.5, None, console)
    assert "word" not in str(error.value)


def test_a_pod_does_not_wait_for_ever_for_a_database_that_is_away(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P40: what runs may need its node."""
    monkeypatch.setenv("STRATA_RECORDS_URL", "mysql://strata:word@127.0.0.1:9/strata")
    monkeypatch.setattr(migrate_command, "POLL_S", 0.05)
    assert migrate_command.run(config, True, 600.0, 0.3, console) == 0
