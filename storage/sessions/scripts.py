"""The Lua scripts: each runs whole or not at all, on keys of one slot, so that a cluster can run them too."""

from importlib.resources import files

_LUA = files("storage.sessions") / "lua"


def _text(name: str) -> str:
    return (_LUA / f"{name}.lua").read_text(encoding="utf-8")


def _family(prelude: str, names: str) -> dict[str, str]:
    return {name: _text(prelude) + _text(name) for name in names.split()}


SESSION = _family(
    "session_prelude", "open opened get peek load append turns read_turns replace remove state put_state preload drop"
)
LISTING = _family("listing_prelude", "list_reserve list_confirm list_touch list_take list_page list_all list_forget")
OWNER = {"owner": _text("owner")}
FORGETTING = {name: _text(name) for name in ("fence", "fenced", "forget")}
RATES = {"rate": _text("rate")}
CLAIMS = {name: _text(name) for name in ("claim", "finish", "release")}
