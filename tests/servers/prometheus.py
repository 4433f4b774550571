"""A Prometheus of one's own: it scrapes what it is told to, and answers queries."""

from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import yaml

from tests.servers.packages import program
from tests.servers.server import Server


class Prometheus(Server):
    """`jobs`: addresses to scrape by the job's name, `host:port` (/metrics) each. `rules`: a file of alert rules."""

    def __init__(self, jobs: Mapping[str, Sequence[str]], every_s: int = 1, rules: str | None = None) -> None:
        super().__init__()
        self._jobs, self._every_s, self._rules = jobs, every_s, rules

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def prepare(self) -> None:
        config = {
            "global": {"scrape_interval": f"{self._every_s}s", "evaluation_interval": f"{self._every_s}s"},
            "rule_files": [self._rules] if self._rules else [],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": list(targets)}]} for job, targets in self._jobs.items()
            ],
        }
        (self.folder / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")

    def command(self) -> list[str]:
        return [
            program("prometheus"),
            f"--config.file={self.folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--log.level=warn",
        ]

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/-/ready", timeout=5, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def get(self, path: str, **parameters: str) -> Any:
        """Of its API: what the answer has under `data`. RuntimeError with its own words where it refuses."""
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=30, trust_env=False)
        body = answer.json()
        if body["status"] != "success":
            raise RuntimeError(f"{body.get('errorType')}: {body.get('error')}")
        return body["data"]

    def query(self, expr: str) -> list[Any]:
        """The series that an instant query answers; a scalar as one without labels."""
        data = self.get("query", query=expr)
        return [{"metric": {}, "value": data["result"]}] if data["resultType"] == "scalar" else data["result"]

    def names(self) -> set[str]:
        """Of every metric that it has seen."""
        return set(self.get("label/__name__/values"))
