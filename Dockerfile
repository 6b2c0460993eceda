# syntax=docker/dockerfile:1
FROM python:3.11-slim AS build
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim
RUN useradd --uid 1000 --create-home smart && install --directory --owner=smart /workspaces
COPY requirements.txt /tmp/
# an index with PyTorch's build for the CPU, which is much smaller: docker compose build --build-arg PIP_EXTRA_INDEX_URL=...
ARG PIP_EXTRA_INDEX_URL
RUN pip install --no-cache-dir -r /tmp/requirements.txt
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels pip install --no-cache-dir --no-deps /wheels/*.whl

USER 1000
WORKDIR /workspaces
VOLUME /workspaces
# the page Start offers the files in this folder
ENV SMART_DATA_FOLDER=/workspaces
# a hidden folder: what is saved for one user is not offered to others as a file
ENV SMART_WORKSPACE_DIR=/workspaces/.saved
EXPOSE 8501
HEALTHCHECK --start-period=60s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8501/_stcore/health', timeout=5)"]
# the log has a link with the token; it stays the same as long as the volume does
CMD ["smart", "dashboard", "--host", "0.0.0.0", "--port", "8501", "--token", "--no-browser"]
