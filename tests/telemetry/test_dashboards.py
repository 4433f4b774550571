"""Dashboard and alerts are what their source says, name metrics that there are, and every alert has its line in the runbook."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from prometheus_client import REGISTRY

from deployments.telemetry import dashboards, metrics  # noqa: F401 - the registry is filled by importing
from deployments.telemetry.alerts import ALERTS, RUNBOOK, Alert
from deployments.telemetry.panels import ROWS, Query
from tests.servers.packages import Missing, program

ROOT = Path(__file__).resolve().parents[2]
QUERIES = [query for row in ROWS for panel in row.panels for query in panel.queries]
OURS = {sample.name for family in REGISTRY.collect() for sample in family.samples} | {
    f"{family.name}{end}"
    for family in REGISTRY.collect()
    for end in {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
}


def test_the_files_are_what_the_source_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert dashboards.main(["--check"]) == 0, capsys.readouterr().out


def test_a_file_that_was_edited_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(dashboards, "FOLDER", tmp_path)
    assert dashboards.main(["--check"]) == 1
    assert dashboards.main([]) == 0
    assert dashboards.main(["--check"]) == 0
    edited = json.loads((tmp_path / "strata.json").read_text())
    edited["title"] = "Mine"
    (tmp_path / "strata.json").write_text(json.dumps(edited))
    assert dashboards.main(["--check"]) == 1
    assert "strata.json" in capsys.readouterr().out


@pytest.mark.parametrize(
    "query", [*QUERIES, *(Query(alert.expr, alert.name) for alert in ALERTS)], ids=lambda q: q.expr
)
def test_every_metric_of_ours_that_is_named_exists(query: Query) -> None:
    named = set(re.findall(r"strata_[a-z_]+", query.expr))
    assert named <= OURS


def test_every_metric_that_we_count_is_shown() -> None:
    """What nobody looks at need not be counted. Metadata of Prometheus' own client aside."""
    shown = " ".join([query.expr for query in QUERIES] + [alert.expr for alert in ALERTS])
    counted = {family.name for family in REGISTRY.collect() if family.name.startswith("strata_")}
    assert not {name for name in counted if name not in shown} - {"strata_weaviate_active_tenants"}


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    panels = dashboards.dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)
def test_every_alert_has_its_line_in_the_runbook(alert: Alert) -> None:
    lines = (ROOT / RUNBOOK).read_text("utf-8").splitlines()
    assert alert.line in lines, f"this line belongs into the table of {RUNBOOK}:\n{alert.line}"


def test_the_runbook_has_no_line_without_an_alert() -> None:
    anchors = re.findall(r'<a id="(Strata\w+)">', (ROOT / RUNBOOK).read_text("utf-8"))
    assert sorted(anchors) == sorted(alert.name for alert in ALERTS)


def test_prometheus_takes_the_rules() -> None:
    try:
        promtool = program("promtool")
    except Missing as missing:
        pytest.skip(str(missing))
    done = subprocess.run(
        [promtool, "check", "rules", "--lint=all", "--lint-fatal", str(dashboards.FOLDER / "alerts.yaml")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


def test_the_rules_are_the_spec_of_a_prometheus_rule() -> None:
    """`groups` with `name` and `rules`, as the operator's resource has them; durations and severities that it takes."""
    groups = yaml.safe_load((dashboards.FOLDER / "alerts.yaml").read_text("utf-8"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    assert {rule["labels"]["severity"] for rule in rules} <= {"page", "ticket"}
    assert all(re.fullmatch(r"\d+[mh]", rule["for"]) for rule in rules)
    assert len({rule["alert"] for rule in rules}) == len(rules)
