"""What `strata doctor` looks at: secrets, every store and its server's settings, schema, models, and whether index and records agree.

It changes nothing: it starts no server, makes no secret, migrates no schema, heals no drift.
"""

from deployments.doctor.examination import examine
from deployments.doctor.findings import Finding, Level

__all__ = ["Finding", "Level", "examine"]
