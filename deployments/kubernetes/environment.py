"""The environment of the pods: what every container of Ray is told, and what comes from Secrets."""

from deployments.ray_environment import RAY_ENVIRONMENT

CLUSTER_ENVIRONMENT = {
    **RAY_ENVIRONMENT,
    "STRATA_HOME": "/var/lib/strata",
    "STRATA_PREPARED": "1",  # Jobs migrate and declare tenants; the builders of the applications do not
    "PROMETHEUS_MULTIPROC_DIR": "/var/run/strata/metrics",  # shared with the sidecar that shows it
    "STRATA_LOGS": "/proc/1/fd/1",  # lines where `kubectl logs` shows them, not in Ray's files
    "HF_HUB_OFFLINE": "1",
}
"""In the ConfigMap ray-environment."""

ADDRESSES = (
    "STRATA_SESSIONS_URL",
    "STRATA_RECORDS_URL",
    "STRATA_WEAVIATE_HTTP",
    "STRATA_WEAVIATE_GRPC",
    "STRATA_WEAVIATE_KEY",
)
"""In the Secret strata-stores, as configs/production.yaml names them. Of managed stores somebody else knows them."""
KEYS = ("STRATA_MASTER_KEY", "STRATA_TOKEN_KEY", "STRATA_PEPPER", "STRATA_RECEIPT_KEY")
"""In the Secret strata-keys."""
