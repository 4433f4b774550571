"""A deliberate mistake in each kind of manifest that we ship, and who refuses it: the API server, KubeRay's operator, or our own lint."""

import copy
import functools
from collections.abc import Iterator
from typing import Any

import pytest

from deployments.kubernetes.lint import findings
from deployments.kubernetes.secrets import secret_documents
from tests.k8s.live import Cluster, Refused, condition, only_with_a_server, wait
from tests.k8s.mistakes import CLUSTER_ONLY, INVALID, REFUSED, UNSEEN, Mistake
from tests.k8s.overlays import KINDS, OVERLAYS, rendered

Manifest = dict[str, Any]

only_with_a_server()

pytestmark = pytest.mark.timeout(1200)

RAY = "rayservices.ray.io"
_DEV = next(path for path in OVERLAYS if path.name == "dev")  # its stores need no addresses
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
CLUSTER_SCOPED = ("Namespace", "PriorityClass")


@pytest.fixture(scope="module")
def place(cluster: Cluster) -> Iterator[str]:
    """A namespace under the same rules as ours, for what is wrong."""
    with cluster.namespace("mistakes", RESTRICTED) as name:
        yield name


@pytest.fixture(scope="module")
def shipped(place: str) -> dict[str, Manifest]:
    """One object of each kind, over all overlays."""
    kinds: dict[str, Manifest] = {}
    for overlay in OVERLAYS:
        for each in rendered(overlay, place):
            kinds.setdefault(each["kind"], each)
    kinds["Secret"] = secret_documents(rendered(_DEV, place), {})[0]
    return kinds


# --- the API server


def test_S_each_kind_that_we_ship_has_its_mistakes(shipped: dict[str, Manifest]) -> None:
    assert set(shipped) == KINDS
    assert set(REFUSED) >= KINDS


@pytest.mark.parametrize(
    ("kind", "mistake"),
    [
        pytest.param(kind, mistake, id=f"{kind}-{mistake.id}")
        for kind in sorted(KINDS & set(REFUSED))
        for mistake in REFUSED[kind]
    ],
)
def test_S_a_strict_dry_run_refuses_it(
    cluster: Cluster, shipped: dict[str, Manifest], kind: str, mistake: Mistake
) -> None:
    """And takes the same object without it: what is refused is the mistake."""
    cluster.apply([shipped[kind]], dry_run=True)
    with pytest.raises(Refused) as refusal:
        cluster.apply([mistake.into(shipped[kind])], dry_run=True)
    assert mistake.says in str(refusal.value)


# --- KubeRay's operator


@pytest.fixture(scope="module")
def wrong(operated: Cluster, place: str, shipped: dict[str, Manifest]) -> dict[str, str]:
    """All that only the operator can judge, stored at once: name by what is wrong with it."""
    named, manifests = {}, []
    for number, (what, mistakes) in enumerate(INVALID):
        manifest = _with(mistakes, _named(shipped["RayService"], f"invalid-{number}"))
        manifests.append(manifest)
        named[what] = manifest["metadata"]["name"]
    for number, (what, mistake) in enumerate(CLUSTER_ONLY):
        manifests.append(mistake.into(_without_redis(shipped["RayService"], f"unmade-{number}")))
        named[what] = manifests[-1]["metadata"]["name"]
    for number, (what, mistakes) in enumerate(UNSEEN):
        manifests.append(_with(mistakes, _without_workers(shipped["RayService"], f"unseen-{number}")))
        named[what] = manifests[-1]["metadata"]["name"]
    operated.apply(manifests)
    return named


def _with(mistakes: list[Mistake], manifest: Manifest) -> Manifest:
    return functools.reduce(lambda wrong, mistake: mistake.into(wrong), mistakes, manifest)


def _named(service: Manifest, name: str) -> Manifest:
    manifest = copy.deepcopy(service)
    manifest["metadata"]["name"] = name
    return manifest


def _without_workers(service: Manifest, name: str) -> Manifest:
    """Its head alone says whether the operator minds."""
    manifest = _named(service, name)
    for group in manifest["spec"]["rayClusterConfig"]["workerGroupSpecs"]:
        group["minReplicas"] = 0
    return manifest


def _without_redis(service: Manifest, name: str) -> Manifest:
    """The Job that empties the Redis is made from the head's template: where that is wrong, a deletion would wait five minutes."""
    manifest = _named(service, name)
    manifest["spec"]["rayClusterConfig"].pop("gcsFaultToleranceOptions", None)
    return manifest


@pytest.mark.parametrize(("what", "mistakes"), [pytest.param(*each, id=each[0].replace(" ", "-")) for each in INVALID])
def test_S_the_operator_says_validation_failed(
    operated: Cluster, place: str, wrong: dict[str, str], what: str, mistakes: list[Mistake]
) -> None:
    """Not Ready, with a reason and a Warning; the API server had stored it."""

    def judged() -> Manifest | None:
        service = operated.object(RAY, wrong[what], place)
        assert service
        return condition(service, "Ready") or None

    ready = wait(judged, f"the operator judges {what}")
    assert (ready["status"], ready["reason"]) == ("False", "ValidationFailed")
    assert mistakes[-1].says in ready["message"]
    wait(
        lambda: any(f"RayService/{wrong[what]}:" in said for said in operated.warnings(place)), f"a Warning for {what}"
    )


@pytest.mark.parametrize(
    ("what", "mistake"), [pytest.param(*each, id=each[0].replace(" ", "-")) for each in CLUSTER_ONLY]
)
def test_S_only_a_warning_on_the_cluster_tells(
    operated: Cluster, place: str, wrong: dict[str, str], what: str, mistake: Mistake
) -> None:
    """The RayService goes on to say Initializing: who waits for it alone waits for ever."""

    def told() -> list[str]:
        start = f"RayCluster/{wrong[what]}-"
        return [said for said in operated.warnings(place) if said.startswith(start) and mistake.says in said]

    wait(told, f"a Warning on the cluster for {what}")
    service = operated.object(RAY, wrong[what], place)
    assert service and condition(service, "Ready").get("reason") == "Initializing"


# --- nobody but us


@pytest.mark.parametrize(("what", "mistakes"), [pytest.param(*each, id=each[0].replace(" ", "-")) for each in UNSEEN])
def test_S_nobody_notices_but_our_lint(
    operated: Cluster,
    place: str,
    wrong: dict[str, str],
    shipped: dict[str, Manifest],
    what: str,
    mistakes: list[Mistake],
) -> None:
    """The server stores it, the operator makes its head without a Warning; the lint names the place."""

    def head() -> bool:
        chosen = "ray.io/node-type=head"
        return any(
            pod["metadata"]["name"].startswith(f"{wrong[what]}-") for pod in operated.objects("pods", place, chosen)
        )

    wait(head, f"a head for {what}")
    said = [
        each
        for each in operated.warnings(place)
        if f"/{wrong[what]}" in each and f"/{wrong[what]}-redis-cleanup" not in each
    ]
    assert said == []
    others = [each for each in rendered(OVERLAYS[0], place) if each["kind"] != "RayService"]
    clean = findings([*others, shipped["RayService"]])
    assert clean == []
    found = [str(each) for each in findings([*others, _with(mistakes, shipped["RayService"])])]
    assert any(mistakes[-1].says in each for each in found), found
