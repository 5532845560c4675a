# Mooring's image. scripts/image.py does the work, so that a test can run it.
ARG PYTHON_IMAGE=python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY scripts/image.py scripts/pinned.py scripts/
COPY src src
RUN python scripts/image.py /opt/mooring

FROM ${PYTHON_IMAGE}
ARG VERSION=unknown
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="Mooring" \
      org.opencontainers.image.description="A Kubernetes scheduler that you extend in Python" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}"
COPY --from=build /opt/mooring /opt/mooring
# Put plugin files here: COPY them in a derived image, or mount them.
WORKDIR /plugins
ENV PATH=/opt/mooring/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 10259
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import ssl, urllib.request; urllib.request.urlopen('https://127.0.0.1:10259/livez', context=ssl._create_unverified_context())"]
ENTRYPOINT ["mooring"]
CMD ["run", "--plugins-dir=/plugins"]
