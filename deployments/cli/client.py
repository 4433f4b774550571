"""The service as the command line calls it: plain HTTP, errors as one line."""

from pathlib import Path
from typing import Any

import httpx

from memory.errors import ConfigError
from models.settings import strata_home


def demo_key(given: str | None) -> str:
    """The key that was given, else the one that `strata up` made for the demo tenant."""
    if given:
        return given
    path: Path = strata_home() / "secrets" / "demo.key"
    if not path.is_file():
        raise ConfigError("--key", f"no key given, and {path} is not there: start Strata with `strata up` first")
    return path.read_text().strip()


class Api:
    """Calls with one credential. A refusal raises ConfigError with the problem's own sentence."""

    def __init__(self, url: str, credential: str) -> None:
        self._client = httpx.Client(
            base_url=url, timeout=30.0, trust_env=False, headers={"Authorization": f"Bearer {credential}"}
        )
        self.url = url

    def call(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        try:
            response = self._client.request(method, path, json=body, params=params or None)
        except httpx.HTTPError as error:
            raise ConfigError(self.url, f"does not answer ({type(error).__name__}); is `strata up` running?") from None
        if response.status_code >= 400:
            problem = response.json() if "json" in response.headers.get("content-type", "") else {}
            raise ConfigError(f"{method} {path}", f"{response.status_code} {problem.get('detail', '')}")
        return response.json() if response.content else None


class SessionApi(Api):
    """Calls with a session's token."""

    def __init__(self, url: str, opened: dict[str, Any]) -> None:
        super().__init__(url, opened["token"])
        self.session_id: str = opened["session_id"]

    def path(self, what: str) -> str:
        return f"/v1/sessions/{self.session_id}/{what}"


def open_session(tenant: Api, user: str, **options: Any) -> SessionApi:
    return SessionApi(tenant.url, tenant.call("POST", "/v1/sessions", {"user_id": user, **options}))
