"""The file of an index: arrays under a header that says what they were made from, with a checksum over both.

It is derived data. Where it doesn't fit or is damaged, it is made anew from the store.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from streakline.errors import CacheError
from streakline.types import JSON

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

_MAX_HEADER = 65536
_TYPES = ("<u8", "<i8", "<u4", "|u1")


def write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]], *, identity: Mapping[str, JSON]) -> None:
    """Write flat arrays, whole or not at all; `identity` is what a reader must expect. Raises `OSError`."""
    columns: list[JSON] = [[name, array.dtype.str, len(array)] for name, array in arrays.items()]
    header: dict[str, JSON] = {"identity": dict(identity), "columns": columns}
    header["sha256"] = _checksum(header, arrays)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(json.dumps(header).encode("ascii") + b"\n")
            for array in arrays.values():
                file.write(array.data)
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def read_arrays(path: Path, *, identity: Mapping[str, JSON]) -> Arrays:
    """Read what `write_arrays` wrote.

    Raises:
        CacheError: there is no such file, it is damaged, or it was made from something else.
    """
    try:
        with path.open("rb") as file:
            return _read(file, identity)
    except OSError as error:
        raise CacheError(f"it can't be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise error if isinstance(error, CacheError) else CacheError("it is damaged") from error


def _read(file: IO[bytes], identity: Mapping[str, JSON]) -> Arrays:
    header = json.loads(file.readline(_MAX_HEADER))
    for name, expected in identity.items():
        if header["identity"].get(name) != expected:
            raise CacheError(f"it was made for another {name}")
    columns = [(name, np.dtype(_TYPES[_TYPES.index(kind)]), int(length)) for name, kind, length in header["columns"]]
    size = file.tell() + sum(kind.itemsize * length for _, kind, length in columns)
    if size != os.fstat(file.fileno()).st_size:
        raise CacheError("it is damaged")
    arrays = {name: np.fromfile(file, kind, length) for name, kind, length in columns}
    if header.pop("sha256") != _checksum(header, arrays):
        raise CacheError("it is damaged")
    return arrays


def _checksum(header: Mapping[str, JSON], arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    digest = sha256(json.dumps(header, sort_keys=True).encode("ascii"))
    for array in arrays.values():
        digest.update(array.data)
    return digest.hexdigest()
