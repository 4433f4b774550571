"""A process that writes lines as a replica does, for tests: `python -m tests.telemetry.speaking`."""

import logging
import sys

import structlog

from deployments.edge.facts import CURRENT, Facts
from deployments.settings import TelemetrySettings
from deployments.telemetry import logs, tracing

CANARY = "zebrafinch"


def speak() -> None:
    early = structlog.get_logger("strata.early")
    logs.configure("MemoryApi")
    tracing.begin(TelemetrySettings(exporter="tests.telemetry.spans:in_memory", sampling=1.0), "MemoryApi", "0")
    early.warning("outside", kind="unavailable")
    early.debug("unheard")
    CURRENT.set(Facts("req-of-somebody", tenant_id="shop"))
    with tracing.request("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "req-of-somebody", "GET"):
        structlog.get_logger("strata.access").info("request", route="/v1/context", ms=1.5)
        logging.getLogger("models.batching").error("%s failed on a batch of %d", "the model", 3)
        try:
            raise ValueError(CANARY)
        except ValueError:
            logging.getLogger("storage.records").exception("broke")
            structlog.get_logger("odd").error("odd", value=object())
    logging.getLogger("somebody.else").warning("not ours")


if __name__ == "__main__":
    speak()
    print("printed", file=sys.stdout)
