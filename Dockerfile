# syntax=docker/dockerfile:1
# Two images that differ in torch alone:
#   docker build --target cpu  -t strata-cpu:0.1.0 .
#   docker build --target cuda -t strata-cuda:0.1.0 .
# Everything is pinned by constraints.txt; the embedding model is inside, so that pods start without a network.
ARG PYTHON=3.11
ARG UV=0.13.9

FROM python:${PYTHON}-slim-bookworm AS base
# KubeRay's probes and start commands call bash, wget and grep inside the container.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends bash ca-certificates grep wget \
 && rm -rf /var/lib/apt/lists/* \
 && groupadd --gid 10001 strata \
 && useradd --uid 10001 --gid 10001 --home-dir /var/lib/strata --create-home --shell /usr/sbin/nologin strata
ENV PATH=/opt/venv/bin:$PATH \
    HOME=/var/lib/strata \
    STRATA_HOME=/var/lib/strata \
    PYTHONUNBUFFERED=1

FROM base AS build
ARG UV
RUN python -m pip install --no-cache-dir "uv==${UV}" && uv venv --python "$(command -v python)" /opt/venv
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./

# Dependencies first: they change less often than the code.
FROM build AS build-cpu
RUN uv pip install --no-cache --compile-bytecode --python /opt/venv/bin/python --torch-backend cpu -c constraints.txt \
    -r pyproject.toml --extra mysql --extra postgres --extra weaviate
COPY memory memory
COPY models models
COPY storage storage
COPY deployments deployments
RUN uv pip install --no-cache --compile-bytecode --python /opt/venv/bin/python --no-deps .

FROM build AS build-cuda
RUN uv pip install --no-cache --compile-bytecode --python /opt/venv/bin/python -c constraints.txt \
    -r pyproject.toml --extra mysql --extra postgres --extra weaviate
COPY memory memory
COPY models models
COPY storage storage
COPY deployments deployments
RUN uv pip install --no-cache --compile-bytecode --python /opt/venv/bin/python --no-deps .

# Prepared once, for both images: an index belongs to one model, to the byte.
# Readable by the user that the images run as: safetensors' writer lets its owner alone read, and that is root here.
FROM build-cpu AS model
RUN python -c "from pathlib import Path; from models.prepare import prepare; from models.settings import EncoderSettings; \
prepare(EncoderSettings(), Path('/opt/strata'))" \
 && rm -f /opt/strata/models/.*.lock \
 && chmod -R a+rX /opt/strata

FROM base AS cuda
COPY --from=build-cuda /opt/venv /opt/venv
COPY --from=model /opt/strata /opt/strata
COPY configs /opt/strata/configs
WORKDIR /opt/strata
# The CUDA libraries come with torch's wheels; the driver from the node.
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
# What lives is Kubernetes' to say: its probes are in the manifests.
HEALTHCHECK NONE
USER 10001:10001
CMD ["strata", "--help"]

# Last, so that `docker build .` makes the smaller one.
FROM base AS cpu
COPY --from=build-cpu /opt/venv /opt/venv
COPY --from=model /opt/strata /opt/strata
COPY configs /opt/strata/configs
WORKDIR /opt/strata
HEALTHCHECK NONE
USER 10001:10001
CMD ["strata", "--help"]
