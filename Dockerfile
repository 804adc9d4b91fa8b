# The server as an image: settings for production, a user without rights, nothing to write to but /data and /tmp.
# tests/e2e/test_image.py follows these steps with the Python of the machine in place of the base image, and copies what
# the lock installs, unless it is run at length.
# docs/production.md, "The image", says how the base image's digest is renewed.
# Agents of your own: mount their catalog and their modules at /srv/agentic.

FROM python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b AS build
WORKDIR /src
RUN python3 -m venv /opt/venv
# requirements-retrieval.lock: with the extra `retrieval`.
ARG LOCK=requirements.lock
COPY requirements.lock requirements-retrieval.lock ./
RUN /opt/venv/bin/pip install --require-hashes --no-deps -r ${LOCK}
COPY pyproject.toml README.md agents_catalog.yaml ./
COPY config/modules.yaml config/settings.yaml config/
COPY agentic_backend agentic_backend
RUN /opt/venv/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
    && /opt/venv/bin/pip install --no-deps --no-index --find-links /dist agentic-backend
COPY tools/sbom.py tools/
RUN /opt/venv/bin/python3 tools/sbom.py ${LOCK} > /agentic-backend.cdx.json

FROM python:3.11-slim-bookworm@sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b
# The first process: it hands signals on, and collects what the MCP servers of agents leave behind.
RUN apt-get update && apt-get install --yes --no-install-recommends tini && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/venv /opt/venv
COPY --from=build /agentic-backend.cdx.json /usr/share/sbom/
RUN mkdir /data && chown 10001:10001 /data
# Who listens on all addresses must know its users: without auth.mode, which is not set here, the server doesn't start.
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    AGENTIC_SERVER__HOST=0.0.0.0 \
    AGENTIC_SERVER__PORT=8000 \
    AGENTIC_SERVER__INTERNAL_HOST=0.0.0.0 \
    AGENTIC_SERVER__INTERNAL_PORT=9000 \
    AGENTIC_DATA__DIRECTORY=/data
WORKDIR /srv/agentic
USER 10001:10001
VOLUME /data
EXPOSE 8000 9000
STOPSIGNAL SIGTERM
# Alive, not ready: an engine that replaces what is unhealthy must not cut off every client because the store is away.
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 CMD ["python3", "-I", "-c", "import http.client, os, sys; internal = http.client.HTTPConnection('127.0.0.1', int(os.environ['AGENTIC_SERVER__INTERNAL_PORT']), timeout=4); internal.request('GET', '/health/live'); sys.exit(internal.getresponse().status != 200)"]
# -s: also where a pod's or an engine's own init is the first process already.
ENTRYPOINT ["tini", "-s", "--", "agentic-backend"]
CMD ["serve"]
# Last, because they change with each commit. `make image` sets them.
ARG VERSION=unknown
ARG REVISION=unknown
ARG CREATED=unknown
ARG SOURCE=unknown
ARG LICENSES=NOASSERTION
LABEL org.opencontainers.image.title="agentic-backend" \
    org.opencontainers.image.description="Chat server for LangGraph agents" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.created="${CREATED}" \
    org.opencontainers.image.source="${SOURCE}" \
    org.opencontainers.image.licenses="${LICENSES}" \
    org.opencontainers.image.base.name="python:3.11-slim-bookworm" \
    org.opencontainers.image.base.digest="sha256:a36c24f9cbdf4fd0f52d67f0823eeac19c2028c637cecc392d97f980d4fec56b" \
    org.cyclonedx.sbom="/usr/share/sbom/agentic-backend.cdx.json"
