# syntax=docker/dockerfile:1
# Build:  docker build -t streakline .
# Run:    docker run --rm --gpus all --shm-size 8g -v "$PWD/mlruns:/app/mlruns" streakline \
#           fit --config configs/experiment/quickstart_sft.yaml
# The CUDA libraries come with the wheel of torch; the host needs a driver and the NVIDIA container toolkit.
# For a CPU image: --build-arg TORCH_INDEX=<PyTorch's index of CPU builds>
FROM python:3.12-slim-bookworm

ARG TORCH="torch==2.13.0"
ARG TORCH_INDEX=""
ARG EXTRAS="bfcl,gguf,judge"

ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PYTHONUNBUFFERED=1 \
    MLFLOW_DISABLE_TELEMETRY=true

WORKDIR /app

# torch alone first: the largest layer, and the one that changes least. Its version is in TORCH.
# hadolint ignore=DL3013
RUN pip install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$TORCH"

COPY pyproject.toml README.md LICENSE ./
COPY requirements requirements
COPY src src
RUN pip install -e ".[${EXTRAS}]" && pip install --no-deps -r requirements/no-deps.txt

COPY main.py Makefile ./
COPY configs configs
COPY tools tools
COPY data data

RUN useradd --uid 1000 --create-home streakline && mkdir -p mlruns && chown -R streakline:streakline /app
USER 1000

ENTRYPOINT ["python", "main.py"]
CMD ["--help"]
