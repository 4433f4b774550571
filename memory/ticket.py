"""What travels with work to a model: whose it is, for fair shares, how long it is still wanted, and the trace that it is part of."""

from dataclasses import dataclass

from memory.ids import TenantId


@dataclass(frozen=True, slots=True)
class Ticket:
    """`timeout_s` is what remains of the caller's deadline when the work is handed over: clocks of two machines never meet.

    `trace` is the caller's span as a W3C `traceparent`: context variables do not cross a handle, so it is carried.
    """

    tenant_id: TenantId
    timeout_s: float
    trace: str | None = None
