"""The API server of the live tests: `STRATA_TEST_KUBECONFIG` names its kubeconfig. Without it they are skipped."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.k8s.live import KUBECONFIG, Cluster


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """A server that the tests may write to: each test takes a namespace of its own there and removes it."""
    named = os.environ[KUBECONFIG]
    assert Path(named).is_file(), f"{KUBECONFIG} names no file"
    assert shutil.which("kubectl"), f"{KUBECONFIG} is set, but kubectl is not installed"
    found = Cluster(Path(named))
    assert found.has("rayservices.ray.io"), "the server has no KubeRay: apply its custom resource definitions first"
    return found


@pytest.fixture(scope="session")
def operated(cluster: Cluster) -> Cluster:
    """The same, where KubeRay's operator acts on RayServices."""
    if not cluster.has_operator():
        pytest.skip("no operator acts on RayServices on this server: only its API was tested")
    return cluster


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    with cluster.namespace("one") as name:
        yield name
