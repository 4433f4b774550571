"""What travels with work to a model: whose it is, for fair shares, and how long it is still wanted."""

from dataclasses import dataclass

from memory.ids import TenantId


@dataclass(frozen=True, slots=True)
class Ticket:
    """`timeout_s` is what remains of the caller's deadline when the work is handed over: clocks of two machines never meet."""

    tenant_id: TenantId
    timeout_s: float
