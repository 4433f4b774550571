"""A Kubernetes API server that a test may write to, through kubectl. Every call ends: kubectl has a limit, waiting has a deadline.

No kubelet is needed: what an API server, its controllers and KubeRay's operator make of a manifest is there before a pod
runs. Where no kubelet is, the one pod whose end others wait for (KubeRay's Redis clean-up) is said to have ended by hand.
"""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

T = TypeVar("T")
Manifest = dict[str, Any]

KUBECONFIG = "STRATA_TEST_KUBECONFIG"
CALL_S = 60.0
"""One kubectl call, at most: its first one asks the server for all its types."""
SETTLE_S = 120.0
"""What controllers may take on a slow machine to make what was asked for."""
OPERATOR_S = 20.0
"""How long an operator may take to touch a RayService before we hold that none runs."""
LEAVE_S = 400.0
"""What a namespace may take to be gone. Seconds, as a rule; five minutes where a Ray cluster was deleted before the operator had made its
service account: the Job that empties its Redis can then make no pod, and the operator gives it up after that time."""

_POLL_S = 0.5
_RAY = "rayservices.ray.io"
_CLUSTER = "rayclusters.ray.io"
CLEANUP = "ray.io/node-type=redis-cleanup"
"""The pod that empties the Redis of a cluster that leaves."""


def only_with_a_server() -> None:
    """At the top of a module of tests: without a server named there is one line to say so, not one for each test."""
    if not os.environ.get(KUBECONFIG):
        pytest.skip(f"{KUBECONFIG} is not set: no API server to apply manifests to", allow_module_level=True)


class Refused(Exception):
    """The server did not take a manifest; the message is its answer."""


class TooLate(AssertionError):
    """Something did not come about within its deadline."""


class Cluster:
    """One API server, as `kubeconfig` names it."""

    def __init__(self, kubeconfig: Path, kubectl: str = "kubectl") -> None:
        self._kubectl = kubectl
        self._environment = os.environ | {"KUBECONFIG": str(kubeconfig)}
        self._operator: bool | None = None

    # --- kubectl

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """What it printed. Raises Refused with what it said on stderr when it exits with an error."""
        command = [self._kubectl, f"--request-timeout={CALL_S:.0f}s", *arguments]
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=CALL_S * 2, check=False, env=self._environment
        )
        if done.returncode:
            raise Refused(done.stderr.strip())
        return done.stdout

    def objects(self, kind: str, namespace: str, labels: str | None = None) -> list[Manifest]:
        """All of a kind in a namespace."""
        selection = ["--selector", labels] if labels else []
        found: list[Manifest] = json.loads(self.kubectl("get", kind, "-n", namespace, "-o", "json", *selection))[
            "items"
        ]
        return found

    def object(self, kind: str, name: str, namespace: str) -> Manifest | None:
        """None where it is not, or not any more."""
        text = self.kubectl("get", kind, name, "-n", namespace, "-o", "json", "--ignore-not-found")
        found: Manifest | None = json.loads(text) if text.strip() else None
        return found

    def apply(self, manifests: list[Manifest], namespace: str | None = None, *, dry_run: bool = False) -> None:
        """Server-side, as our documentation says to; an unknown or mistyped field anywhere is an error (Refused)."""
        place = ["-n", namespace] if namespace else []
        self.kubectl(
            "apply", "--server-side", "--validate=strict", f"--dry-run={'server' if dry_run else 'none'}", *place, "-f", "-",
            given=yaml.safe_dump_all(manifests),
        )  # fmt: skip

    def version(self) -> str:
        said: Manifest = json.loads(self.kubectl("version", "-o", "json"))
        return str(said["serverVersion"]["gitVersion"])

    def has(self, resource: str) -> bool:
        """Whether the server knows a custom resource, as `rayservices.ray.io`."""
        return bool(self.kubectl("get", "crd", resource, "--ignore-not-found", "-o", "name").strip())

    # --- the operator

    def has_operator(self) -> bool:
        """Whether somebody acts on RayServices here: found out once, by one that is wrong on purpose and so starts nothing."""
        if self._operator is None:
            with self.namespace("probe") as namespace:
                self.apply(
                    [
                        {
                            "apiVersion": "ray.io/v1",
                            "kind": "RayService",
                            "metadata": {"name": "probe"},
                            "spec": _REFUSED,
                        }
                    ],
                    namespace,
                )
                try:
                    wait(lambda: self._touched("probe", namespace), "an operator touches a RayService", OPERATOR_S)
                    self._operator = True
                except TooLate:
                    self._operator = False
        return self._operator

    def _touched(self, name: str, namespace: str) -> bool:
        service = self.object(_RAY, name, namespace)
        return bool(service and service.get("status", {}).get("conditions"))

    # --- namespaces

    @contextlib.contextmanager
    def namespace(self, purpose: str, labels: dict[str, str] | None = None) -> Iterator[str]:
        """One of its own, and gone at the end with all that is in it."""
        name = f"strata-test-{purpose}-{os.getpid()}-{time.time_ns() % 100_000}"
        self.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels or {}}}])
        try:
            yield name
        finally:
            self.remove(name)

    def remove(self, namespace: str) -> None:
        """RayServices first: with the namespace gone the operator can't make the Job that their clusters wait for.

        Raises TooLate where something stays, after it took the finalizers away so that nothing stays for good.
        """
        if self.has(_RAY):
            with contextlib.suppress(TooLate):
                wait(lambda: self._grown(namespace), "every Ray cluster has its service account", OPERATOR_S)
            self.kubectl("delete", _RAY, "--all", "-n", namespace, "--wait=false")
            try:
                wait(lambda: self._rays_left(namespace), f"the Ray clusters of {namespace} are gone", LEAVE_S)
            except TooLate:
                for kind in (_RAY, _CLUSTER):
                    for left in self.objects(kind, namespace):
                        self._let_go(kind, left["metadata"]["name"], namespace)
                self.kubectl("delete", "namespace", namespace, "--wait=false", "--ignore-not-found")
                raise
        self.kubectl("delete", "namespace", namespace, "--wait=false", "--ignore-not-found")
        gone = lambda: not self.kubectl("get", "namespace", namespace, "--ignore-not-found", "-o", "name").strip()  # noqa: E731
        wait(gone, f"namespace {namespace} is gone", LEAVE_S)

    def _grown(self, namespace: str) -> bool:
        accounts = {each["metadata"]["name"] for each in self.objects("serviceaccounts", namespace)}
        return all(each["metadata"]["name"] in accounts for each in self.objects(_CLUSTER, namespace))

    def _rays_left(self, namespace: str) -> bool:
        services, clusters = self.objects(_RAY, namespace), self.objects(_CLUSTER, namespace)
        if self._operator is False:
            for kind, left in ((_RAY, services), (_CLUSTER, clusters)):
                for each in left:
                    self._let_go(kind, each["metadata"]["name"], namespace)
        self._say_cleaned(namespace)
        return not services and not clusters

    def _let_go(self, kind: str, name: str, namespace: str) -> None:
        with contextlib.suppress(Refused):  # gone meanwhile
            self.kubectl("patch", kind, name, "-n", namespace, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')

    def _say_cleaned(self, namespace: str) -> None:
        """Where no node is, the Redis clean-up pod can never run: it is said to have succeeded. Nothing was ever in that Redis."""
        if self.has_nodes():
            return
        for pod in self.objects("pods", namespace, CLEANUP):
            if pod["status"].get("phase") == "Pending":
                self.patch_status(pod["metadata"]["name"], namespace, {"phase": "Succeeded"})

    def has_nodes(self) -> bool:
        """Whether a kubelet could run a pod here."""
        return bool(self.kubectl("get", "nodes", "-o", "name").strip())

    def patch_status(self, pod: str, namespace: str, status: Manifest) -> None:
        """Play the kubelet for one pod."""
        with contextlib.suppress(Refused):  # gone meanwhile
            self.kubectl(
                "patch",
                "pod",
                pod,
                "-n",
                namespace,
                "--subresource=status",
                "--type=merge",
                "-p",
                json.dumps({"status": status}),
            )

    # --- what others say of it

    def warnings(self, namespace: str) -> list[str]:
        """`kind/name: reason: message` of every Warning, but that no node is there and what is said of a race that is tried again."""
        said = {
            f"{event['involvedObject'].get('kind')}/{event['involvedObject'].get('name')}: {event.get('reason')}: {event.get('message')}"
            for event in self.objects("events", namespace)
            if event.get("type") == "Warning" and event.get("reason") != "FailedScheduling"
        }
        return sorted(each for each in said if not each.endswith(_RACES))


_RACES = ("already exists", "please apply your changes to the latest version and try again")


_REFUSED: Manifest = {
    # the operator refuses it at once (no such upgrade), and so makes nothing
    "serveConfigV2": "applications: []",
    "upgradeStrategy": {"type": "NoSuchUpgrade"},
    "rayClusterConfig": {
        "headGroupSpec": {
            "rayStartParams": {},
            "template": {"spec": {"containers": [{"name": "ray-head", "image": "none"}]}},
        }
    },
}


def wait(ready: Callable[[], T], what: str, deadline_s: float = SETTLE_S) -> T:
    """The first true value of `ready`. Raises TooLate, naming `what` and the last answer, at the deadline."""
    until = time.monotonic() + deadline_s
    while True:
        said = ready()
        if said:
            return said
        if time.monotonic() > until:
            raise TooLate(f"not within {deadline_s:.0f} s: {what} (last: {said!r})")
        time.sleep(_POLL_S)


def condition(thing: Manifest, kind: str) -> Manifest:
    """A condition of its status by type; empty where it has none."""
    found: list[Manifest] = thing.get("status", {}).get("conditions") or []
    return next((each for each in found if each["type"] == kind), {})
