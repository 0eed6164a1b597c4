"""The file of an index: a checksum, then a header that says what it was made from, then arrays as numpy writes them.

It is derived data. Where it doesn't fit or is damaged, it is made anew from the store.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from streakline.errors import CacheError
from streakline.types import JSON

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

_CHECKSUM_BYTES = sha256().digest_size


def write_arrays(path: Path, arrays: Arrays, *, identity: Mapping[str, JSON]) -> None:
    """Write arrays, whole or not at all; `identity` is what a reader must expect. Raises `OSError`."""
    header = json.dumps({"identity": dict(identity), "arrays": list(arrays)}).encode("ascii")
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w+b") as file:
            file.write(bytes(_CHECKSUM_BYTES))
            for array in (np.frombuffer(header, np.uint8), *arrays.values()):
                np.save(file, array, allow_pickle=False)
            file.seek(_CHECKSUM_BYTES)
            checksum = file_digest(file, "sha256").digest()
            file.seek(0)
            file.write(checksum)
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def read_arrays(path: Path, *, identity: Mapping[str, JSON]) -> Arrays | None:
    """Read what `write_arrays` wrote; None = there is no such file, or it was made from something else.

    Raises:
        CacheError: it is damaged, or can't be read.
    """
    try:
        with path.open("rb") as file:
            checksum = file.read(_CHECKSUM_BYTES)
            if file_digest(file, "sha256").digest() != checksum:
                raise CacheError("it is damaged")
            file.seek(_CHECKSUM_BYTES)
            header = json.loads(np.load(file).tobytes())
            if any(header["identity"].get(name) != value for name, value in identity.items()):
                return None
            return {name: np.load(file) for name in header["arrays"]}
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CacheError(f"it can't be read: {error.strerror}") from error
