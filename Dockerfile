# Millpond in a container: `docker run IMAGE` serves push, `docker run IMAGE pull --subscription NAME` pulls.
# Everything installed is named with its hash in requirements.run.lock; `make lock` writes it.

FROM python:3.13-slim AS build
WORKDIR /build
COPY requirements.build.lock requirements.run.lock ./
# No pip in the environment that is shipped; the one beside it installs into it. Wheels only, so no compiler either.
RUN pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.build.lock \
    && python -m venv --without-pip /app \
    && pip --python /app/bin/python install --no-cache-dir --disable-pip-version-check \
       --only-binary :all: --require-hashes -r requirements.run.lock
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist . \
    && pip --python /app/bin/python install --no-cache-dir --disable-pip-version-check --no-deps dist/*.whl

FROM python:3.13-slim
COPY --from=build /app /app
# For the embedded store, where nothing else is set: mount a volume here to keep it.
RUN install -d -o 65532 -g 65532 /data
WORKDIR /data
ENV PATH=/app/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    HOST=0.0.0.0 \
    PORT=8080
# By number, so that an orchestrator can see that it is not root.
USER 65532:65532
EXPOSE 8080
# Not through a shell, which would keep SIGTERM to itself.
ENTRYPOINT ["millpond"]
CMD ["serve"]
