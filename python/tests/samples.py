"""Sample data of the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TALK: list[dict[str, Any]] = [
    {
        "model": "m-1",
        "messages": [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "good morning"},
            {"role": "user", "content": "any tea?"},
        ],
    }
]

GRAINS: list[dict[str, Any]] = [
    {"type": "belief", "subject": "ada", "relation": "mg:prefers", "object": "tea",
     "confidence": 0.9, "namespace": "home", "user_id": "u-1", "created_at": 1767225600000},
    {"type": "belief", "subject": "bob", "relation": "mg:prefers", "object": "coffee",
     "confidence": 0.5, "namespace": "home", "user_id": "u-2", "created_at": 1767225601000,
     "structural_tags": ["drink", "hot"]},
    {"type": "event", "role": "user", "content": "The tea is out.", "session_id": "s-1",
     "namespace": "home", "user_id": "u-1", "created_at": 1767225602000},
]  # fmt: skip


def write_lines(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
