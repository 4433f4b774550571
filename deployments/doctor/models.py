"""Which embedding model is configured, and which one the index is of."""

from collections.abc import Sequence
from pathlib import Path

from deployments.doctor.findings import Finding, bad, ok, warn
from memory.errors import ConfigError
from models.card import is_prepared, read_prepared
from models.prepare import prepared_folder
from models.settings import EncoderSettings
from storage.protocols import IndexVersion, VersionState

_UNFINISHED = (
    "run `strata reindex` with that model again, which goes on where it was, or drop it: `strata reindex --drop {}`"
)
_RETIRED = "once no replica of that model runs: `strata reindex --drop {}`"


def models(settings: EncoderSettings, home: Path, versions: Sequence[IndexVersion]) -> list[Finding]:
    """The configured model's card against the records' list. A model that is not prepared yet is not loaded for this."""
    found = []
    active = next((version for version in versions if version.state is VersionState.ACTIVE), None)
    folder = settings.folder or prepared_folder(settings, home)
    if not is_prepared(folder):
        found.append(warn("model", f"{settings.model} is not prepared on this machine", "the first start prepares it"))
    else:
        try:
            found.append(_configured(read_prepared(folder).card.key, settings.model, active, versions))
        except ConfigError as error:
            found.append(bad("model", error.where, error.fix))
    for version in versions:
        name = version.details.get("name", version.model_key)
        part = f"model.{version.model_key}"
        if version.state is VersionState.BUILDING:
            found.append(warn(part, f"{name} is not finished", _UNFINISHED.format(version.model_key)))
        elif version.state is VersionState.RETIRED:
            found.append(warn(part, f"{name} is retired and still kept", _RETIRED.format(version.model_key)))
    return found


def _configured(key: str, model: str, active: IndexVersion | None, versions: Sequence[IndexVersion]) -> Finding:
    if active is None:
        return ok("model", f"{model}; the first start makes its index")
    if active.model_key == key:
        return ok("model", f"{model} is what the index was made with")
    current = active.details.get("name", active.model_key)
    if any(version.model_key == key and version.state is VersionState.READY for version in versions):
        return warn("model", f"the index is of {current}; that of {model} is ready", "start Strata again: it switches")
    fix = f"run `strata reindex --model {model}`, or configure {current} again"
    return bad("model", f"{model} is configured, but the index is of {current}", fix)
