"""`python -m deployments.telemetry.dashboards`: writes dashboards/ from panels.py and alerts.py; with --check says whether it is so.

strata.json is imported into Grafana; alerts.yaml is what Prometheus takes under rule_files, and it is the `spec` of a PrometheusRule.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import yaml

from deployments.telemetry.alerts import ALERTS
from deployments.telemetry.panels import ROWS, Panel, Query

FOLDER = Path(__file__).resolve().parents[2] / "dashboards"
COMMAND = "python -m deployments.telemetry.dashboards"
PER_LINE, WIDTH, HEIGHT = 3, 8, 8
SOURCE = {"type": "prometheus", "uid": "${source}"}


def dashboard() -> dict[str, Any]:
    """Of Grafana 10 and later."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row in ROWS:
        panels.append(
            {
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "panels": [],
                "id": len(panels) + 1,
                "gridPos": {"x": 0, "y": top, "w": 24, "h": 1},
            }
        )
        top += 1
        for place, panel in enumerate(row.panels):
            across, down = place % PER_LINE, place // PER_LINE
            at = {"x": across * WIDTH, "y": top + down * HEIGHT, "w": WIDTH, "h": HEIGHT}
            panels.append({**_panel(panel), "id": len(panels) + 1, "gridPos": at})
        top += -(-len(row.panels) // PER_LINE) * HEIGHT
    return {
        "title": "Strata",
        "uid": "strata",
        "description": f"Written by {COMMAND}.",
        "tags": ["strata"],
        "timezone": "browser",
        "schemaVersion": 39,
        "version": 1,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [{"type": "datasource", "name": "source", "label": "Prometheus", "query": "prometheus", "hide": 0}]
        },
        "panels": panels,
    }


def _panel(panel: Panel) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [_target(query, chr(ord("A") + n)) for n, query in enumerate(panel.queries)],
    }


def _target(query: Query, ref: str) -> dict[str, Any]:
    return {"refId": ref, "expr": query.expr, "legendFormat": query.legend, "datasource": SOURCE}


def rules() -> dict[str, Any]:
    return {
        "groups": [
            {
                "name": "strata",
                "rules": [
                    {
                        "alert": alert.name,
                        "expr": alert.expr,
                        "for": alert.for_,
                        "labels": {"severity": alert.severity},
                        "annotations": {"summary": alert.means, "description": alert.do, "runbook": alert.anchor},
                    }
                    for alert in ALERTS
                ],
            }
        ]
    }


def files() -> dict[str, str]:
    return {
        "strata.json": json.dumps(dashboard(), indent=1, ensure_ascii=False) + "\n",
        "alerts.yaml": f"# Written by {COMMAND}.\n"
        + yaml.safe_dump(rules(), sort_keys=False, allow_unicode=True, width=160),
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; 1 where a file is not as it would be written"
    )
    check = parser.parse_args(arguments).check
    stale = [name for name, text in files().items() if not _same(FOLDER / name, text)]
    if check:
        for name in stale:
            print(f"dashboards/{name} is not what {COMMAND} writes")
        return 1 if stale else 0
    FOLDER.mkdir(exist_ok=True)
    for name in stale:
        (FOLDER / name).write_text(files()[name], "utf-8")
        print(f"dashboards/{name} written")
    return 0


def _same(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text("utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
