"""Pod templates: what PodSecurity, the scheduler or the kubelet would say only when a pod is made, or nobody ever."""

from collections.abc import Iterator

from deployments.kubernetes.lint.documents import Document, Finding, PodTemplate, of_kind, pod_templates, ray_services
from deployments.kubernetes.lint.serve import quantity

GRACE_S = 60
"""`ray start` took 20-34 s to end, and a replica ends its requests first."""


def resources(documents: list[Document]) -> Iterator[Finding]:
    """Ray reckons with what the container may use; without, a worker believes that the whole node is its own."""
    for template in pod_templates(documents):
        for path, container in template.containers():
            given = container.get("resources") or {}
            requests, limits = given.get("requests") or {}, given.get("limits") or {}
            missing = [f"requests.{kind}" for kind in ("cpu", "memory") if kind not in requests]
            missing += ["limits.memory"] if "memory" not in limits else []
            if missing:
                yield Finding(template.owner, f"{path}.resources", f"says nothing of {', '.join(missing)}")
            for kind in set(requests) & set(limits):
                if quantity(requests[kind]) > quantity(limits[kind]):
                    yield Finding(
                        template.owner, f"{path}.resources", f"requests more {kind} than limits allow: no pod is made"
                    )


def locked_down(documents: list[Document]) -> Iterator[Finding]:
    """What PodSecurity `restricted` asks of each container; a pod that lacks it is refused, and the RayService only says Initializing."""
    for template in pod_templates(documents):
        pod = template.spec.get("securityContext") or {}
        for path, container in template.containers():
            yield from _locked(template.owner, f"{path}.securityContext", container.get("securityContext") or {}, pod)
    for name, _, cluster in ray_services(documents):
        if cluster.get("enableInTreeAutoscaling"):
            head = (cluster.get("headGroupSpec") or {}).get("template") or {}
            pod = (head.get("spec") or {}).get("securityContext") or {}
            own = (cluster.get("autoscalerOptions") or {}).get("securityContext") or {}
            yield from _locked(name, "spec.rayClusterConfig.autoscalerOptions.securityContext", own, pod)


def _locked(owner: str, path: str, container: Document, pod: Document) -> Iterator[Finding]:
    def says(key: str) -> object:
        return container.get(key, pod.get(key))

    missing = []
    if says("runAsNonRoot") is not True:
        missing.append("runAsNonRoot: true")
    if container.get("allowPrivilegeEscalation") is not False:
        missing.append("allowPrivilegeEscalation: false")
    if "ALL" not in ((container.get("capabilities") or {}).get("drop") or ()):
        missing.append("capabilities: {drop: [ALL]}")
    profile = says("seccompProfile")
    if not isinstance(profile, dict) or profile.get("type") not in ("RuntimeDefault", "Localhost"):
        missing.append("seccompProfile: {type: RuntimeDefault}")
    if missing:
        yield Finding(owner, path, f"PodSecurity refuses the pod without {', '.join(missing)}")


def images(documents: list[Document]) -> Iterator[Finding]:
    for template in pod_templates(documents):
        for path, container in template.containers():
            image = str(container.get("image") or "")
            _, _, tag = image.rpartition("/")[2].partition(":")
            if not image:
                yield Finding(template.owner, f"{path}.image", "is missing")
            elif "@sha256:" not in image and tag in ("", "latest"):
                yield Finding(template.owner, f"{path}.image", f"{image}: name a version; what runs must be known")


def one_image_version(documents: list[Document]) -> Iterator[Finding]:
    """Ray wants one version of itself and of Python on every node, and the Jobs migrate to the schema of the replicas."""
    tags: dict[str, str] = {}
    for template in pod_templates(documents):
        for path, container in template.containers():
            name, _, tag = str(container.get("image") or "").rpartition("/")[2].partition(":")
            if name in ("strata-cpu", "strata-cuda") or template.ray is not None:
                tags.setdefault(tag, f"{template.owner}: {path}")
    if len(tags) > 1:
        said = ", ".join(f"{tag} ({where})" for tag, where in sorted(tags.items()))
        yield Finding("images", "tag", f"Strata runs in several versions: {said}; use one")


def grace(documents: list[Document]) -> Iterator[Finding]:
    for template in pod_templates(documents):
        seconds = template.spec.get("terminationGracePeriodSeconds", 30)
        if template.ray is not None and seconds < GRACE_S:
            yield Finding(
                template.owner,
                f"{template.path}.spec.terminationGracePeriodSeconds",
                f"is {seconds}: Ray takes up to 34 s to end, after the requests that it has; write {GRACE_S} or more",
            )


def volumes(documents: list[Document]) -> Iterator[Finding]:
    """An unknown volume, or a name that is too long, is told only in an event of the RayCluster."""
    for template in pod_templates(documents):
        known = {volume["name"] for volume in template.spec.get("volumes") or ()} | _claims(documents, template)
        for path, container in template.containers():
            mounts = container.get("volumeMounts") or ()
            for mount in mounts:
                if mount["name"] not in known:
                    yield Finding(template.owner, f"{path}.volumeMounts", f"there is no volume `{mount['name']}`")
            for port in container.get("ports") or ():
                if len(port.get("name", "")) > 15:
                    yield Finding(
                        template.owner, f"{path}.ports", f"`{port['name']}` is over 15 characters: no pod is made"
                    )
            locked = (container.get("securityContext") or {}).get("readOnlyRootFilesystem")
            if template.ray and locked and "/tmp" not in {mount["mountPath"] for mount in mounts}:  # noqa: S108
                yield Finding(
                    template.owner,
                    f"{path}.volumeMounts",
                    "the root is read-only and Ray writes to /tmp: mount an emptyDir there",
                )


def _claims(documents: list[Document], template: PodTemplate) -> set[str]:
    return {
        claim["metadata"]["name"]
        for document in of_kind(documents, "StatefulSet")
        if f"StatefulSet {document['metadata']['name']}" == template.owner
        for claim in document["spec"].get("volumeClaimTemplates") or ()
    }


def config_maps(documents: list[Document]) -> Iterator[Finding]:
    """A ConfigMap that nobody makes leaves the pod in CreateContainerConfigError."""
    made = {document["metadata"]["name"] for document in of_kind(documents, "ConfigMap")}
    for template in pod_templates(documents):
        named = [
            (f"{template.path}.spec.volumes", (volume.get("configMap") or {}).get("name"))
            for volume in template.spec.get("volumes") or ()
        ]
        for path, container in template.containers():
            named += [
                (f"{path}.envFrom", (source.get("configMapRef") or {}).get("name"))
                for source in container.get("envFrom") or ()
            ]
        for path, name in named:
            if name is not None and name not in made:
                yield Finding(template.owner, path, f"there is no ConfigMap `{name}`")


def ray_environment(documents: list[Document]) -> Iterator[Finding]:
    """Every node of Ray needs the same environment before Ray starts; a transport that one node lacks is a proxy that nobody reaches."""
    for template in pod_templates(documents):
        if template.ray is None:
            continue
        path, container = template.ray_container()
        sources = {(source.get("configMapRef") or {}).get("name") for source in container.get("envFrom") or ()}
        if "ray-environment" not in sources:
            yield Finding(
                template.owner,
                f"{path}.envFrom",
                "takes nothing from the ConfigMap ray-environment: every node of Ray needs it",
            )
        for variable in container.get("env") or ():
            if variable.get("name") == "RAY_ADDRESS":
                yield Finding(
                    template.owner, f"{path}.env", "take RAY_ADDRESS away: the operator says where the head is"
                )
    for document in of_kind(documents, "ConfigMap"):
        if document["metadata"]["name"] == "ray-environment" and "RAY_ADDRESS" in (document.get("data") or {}):
            yield Finding(
                "ConfigMap ray-environment", "data.RAY_ADDRESS", "take it away: the operator says where the head is"
            )


def liveness_asks_no_store(documents: list[Document]) -> Iterator[Finding]:
    """P40: an outage of a store would restart every pod."""
    for template in pod_templates(documents):
        for path, container in template.containers():
            probe = container.get("livenessProbe") or {}
            if "readyz" in str((probe.get("httpGet") or {}).get("path")) or "readyz" in str(probe.get("exec") or ""):
                yield Finding(
                    template.owner, f"{path}.livenessProbe", "asks /readyz, which asks the stores: use /healthz"
                )


RULES = (
    resources,
    locked_down,
    images,
    one_image_version,
    grace,
    volumes,
    config_maps,
    ray_environment,
    liveness_asks_no_store,
)
