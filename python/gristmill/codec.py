"""Single grains and their blobs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from . import _native


def encode(grain: Mapping[str, Any], options: Mapping[str, Any] | None = None) -> bytes:
    """Encodes a grain to its canonical blob.

    >>> import gristmill as gm
    >>> blob = gm.encode({"type": "event", "role": "user", "content": "hello", "created_at": 1})
    >>> gm.decode(blob)["content"]
    'hello'

    ``options`` are those of ``gristmill grain encode``.

    Raises :class:`gristmill.GrainError` with the code of the specification.
    """
    given = None if options is None else json.dumps(dict(options))
    return _native.encode(json.dumps(dict(grain)), given)


def decode(blob: bytes, *, lenient: bool = False) -> dict[str, Any]:
    """Decodes a blob, signed or not.

    >>> import gristmill as gm
    >>> gm.decode(b"no grain")
    Traceback (most recent call last):
        ...
    gristmill.errors.GrainError: ...

    ``lenient`` accepts grains that are readable but not canonical.
    """
    grain: dict[str, Any] = json.loads(_native.decode(blob, lenient))
    return grain


def content_address(blob: bytes) -> str:
    """Returns the content address of a blob: the SHA-256 of its bytes, without a signature.

    >>> import gristmill as gm
    >>> blob = gm.encode({"type": "event", "role": "user", "content": "hello", "created_at": 1})
    >>> len(gm.content_address(blob))
    64
    """
    return _native.content_address(blob)
