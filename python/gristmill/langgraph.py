"""A store of LangGraph in a lake.

Needs the package ``langgraph-checkpoint``, which LangGraph brings along.
"""

from __future__ import annotations

import asyncio
import json
import operator
import re
import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from .errors import UsageError
from .lake import Lake

#: Relation of the beliefs that are items: subject is the key, object the value as JSON.
RELATION = "langgraph:item"

#: Tag of items that were put with ``index=False``: a search with a query doesn't find them.
UNINDEXED = "langgraph:unindexed"

#: Separates the parts of a namespace.
_SEPARATOR = ":"

_COLUMNS = "content_address, namespace, subject, object, valid_from, created_at"

#: Items of a page that a search compares with a filter, and most items that a query finds.
_CANDIDATES = 10_000

#: Most words of a search, and most bytes of them.
_QUERY_WORDS = 64
_QUERY_BYTES = 8_000

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


class GristmillStore(BaseStore):
    """Keeps the items of a LangGraph store as grains.

    Every item is a belief, so it is verified, versioned, scanned, exported and erased like the rest
    of the memory. A changed item supersedes its old version, a deleted one is retracted; both stay
    in the history. Give ``user_position``, so that an erasure finds a person's items.

    A search with a query ranks by the words of whole items, except those that were put with
    ``index=False``. Lists of fields for ``index`` are refused. Items don't expire: ``ttl`` is
    refused. Namespaces and keys are compared, and returned, in Unicode's normal form C.

    >>> import gristmill as gm
    >>> from gristmill.langgraph import GristmillStore
    >>> store = GristmillStore(gm.Lake(folder / "lake"))
    >>> store.put(("memories", "ada"), "drink", {"text": "prefers green tea"})
    >>> store.get(("memories", "ada"), "drink").value
    {'text': 'prefers green tea'}
    >>> [item.key for item in store.search(("memories",), query="tea")]
    ['drink']

    :param lake: The lake.
    :param user_position: Position in the namespace of the user's id, e.g. 1 for
        ``("memories", user_id)``.
    """

    def __init__(self, lake: Lake, *, user_position: int | None = None) -> None:
        self._lake = lake
        self._user_position = user_position

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Runs operations in order; changes are visible to the operations after them."""
        operations = list(ops)
        if not any(isinstance(op, PutOp) for op in operations):
            self._lake.refresh()
            return [self._run(op) for op in operations]
        # Of two threads that have found no item each would add one.
        with self._lake._read_and_change:
            self._lake.refresh()
            return [self._run(op) for op in operations]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Like :meth:`batch`, on another thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    def _run(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            found = self._find(op.namespace, op.key)
            return _item(found[0]) if found else None
        if isinstance(op, PutOp):
            self._put(op)
            return None
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op)
        raise UsageError(f"the store has no operation {type(op).__name__}")

    def _find(self, namespace: tuple[str, ...], key: str) -> list[dict[str, Any]]:
        """Returns the item, newest first: two processes can have put it at the same time."""
        return self._lake.sql(
            f"SELECT {_COLUMNS} FROM current WHERE relation = $relation AND subject = $key "
            "AND namespace = $namespace ORDER BY created_at DESC, content_address",
            relation=RELATION,
            key=_normal(key),
            namespace=_joined(namespace),
        ).to_dicts()

    def _put(self, op: PutOp) -> None:
        if op.ttl is not None:
            raise UsageError("items of this store don't expire: leave out `ttl`")
        if op.index is not None and op.index is not False:
            raise UsageError("a search of this store reads whole items: leave out `index`")
        found = self._find(op.namespace, op.key)
        # Only the newest is superseded: what was put at the same time would be the item again.
        kept = found[:1] if op.value is not None else []
        for row in found[len(kept) :]:
            self._apply({"op": "retract", "address": row["content_address"]})
        if op.value is None:
            return
        now = time.time_ns() // 1_000_000
        made = now
        for row in kept:
            made = _milliseconds(row["valid_from"])
            # Equal values at one instant would be one grain.
            now = max(now, _milliseconds(row["created_at"]) + 1)
        grain: dict[str, Any] = {
            "type": "belief",
            "subject": _normal(op.key),
            "relation": RELATION,
            "object": json.dumps(op.value, ensure_ascii=False),
            "confidence": 1.0,
            "namespace": _joined(op.namespace),
            "valid_from": made,
            "created_at": now,
        }
        if op.index is False:
            grain["structural_tags"] = [UNINDEXED]
        if self._user_position is not None and self._user_position < len(op.namespace):
            grain["user_id"] = op.namespace[self._user_position]
        if not kept:
            self._apply({"op": "put", "grain": grain})
        for row in kept:
            address = row["content_address"]
            self._apply({"op": "supersede", "address": address, "grain": grain})

    def _apply(self, operation: dict[str, Any]) -> None:
        (outcome,) = self._lake.apply([operation])
        if not outcome["ok"]:
            raise UsageError(outcome.get("message", "refused"), outcome.get("error"))

    def _search(self, op: SearchOp) -> list[SearchItem]:
        prefix = _joined(op.namespace_prefix)
        items = "relation = $relation"
        if prefix:
            items += " AND (namespace = $prefix OR starts_with(namespace, $below))"
        parameters = {"relation": RELATION, "prefix": prefix, "below": prefix + _SEPARATOR}
        words = _words(op.query or "")
        condition = items
        if words:
            tagged = f"array_has(structural_tags, '{UNINDEXED}')"
            condition += f" AND NOT coalesce({tagged}, false)"
        # As in `_find`, of items that two processes have put the newest.
        newest_first = "PARTITION BY namespace, subject ORDER BY created_at DESC, content_address"
        current = (
            f"SELECT content_address FROM (SELECT content_address, row_number() OVER "
            f"({newest_first}) AS place FROM current WHERE {items}) AS versions WHERE place = 1"
        )
        source = f"search('{' OR '.join(words)}', {_CANDIDATES})" if words else "grains"
        score = "score" if words else "CAST(NULL AS DOUBLE) AS score"
        order = "score DESC, content_address" if words else "created_at DESC, content_address"

        def found(limit: int, offset: int) -> list[SearchItem]:
            rows = self._lake.sql(
                f"SELECT {_COLUMNS}, {score} FROM {source} WHERE {condition} AND content_address "
                f"IN ({current}) ORDER BY {order} LIMIT {limit} OFFSET {offset}",
                parameters,
            ).to_dicts()
            return [_search_item(row) for row in rows]

        if not op.filter:
            return found(op.limit, op.offset)
        kept: list[SearchItem] = []
        at = 0
        while len(kept) < op.offset + op.limit:
            page = found(_CANDIDATES, at)
            kept += [item for item in page if _passes(item.value, op.filter)]
            if len(page) < _CANDIDATES:
                break
            at += _CANDIDATES
        return kept[op.offset : op.offset + op.limit]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        rows = self._lake.sql(
            "SELECT DISTINCT namespace FROM current WHERE relation = $relation", relation=RELATION
        ).to_dicts()
        namespaces = (tuple(row["namespace"].split(_SEPARATOR)) for row in rows)
        conditions = op.match_conditions or ()
        found = {
            namespace[: op.max_depth]
            for namespace in namespaces
            if all(_matches(namespace, condition) for condition in conditions)
        }
        return sorted(found)[op.offset : op.offset + op.limit]


def _words(query: str) -> list[str]:
    """Returns the words of a query, which may be a whole message: as many as a search may have."""
    words: list[str] = []
    left = _QUERY_BYTES
    for word in dict.fromkeys(re.findall(r"\w+", query)):
        size = len(word.encode()) + len(" OR ")
        if size <= left and len(words) < _QUERY_WORDS:
            words.append(word)
            left -= size
    return words


def _joined(namespace: tuple[str, ...]) -> str:
    for part in namespace:
        if _SEPARATOR in part:
            raise UsageError(f"the part `{part}` of a namespace contains `{_SEPARATOR}`")
    return _normal(_SEPARATOR.join(namespace))


def _normal(text: str) -> str:
    """Returns a text as grains have it."""
    return unicodedata.normalize("NFC", text)


def _milliseconds(text: str) -> int:
    return round(_instant(text).timestamp() * 1000)


def _instant(text: str) -> datetime:
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def _parts(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "namespace": tuple(row["namespace"].split(_SEPARATOR)),
        "key": row["subject"],
        "value": json.loads(row["object"]),
        "created_at": _instant(row["valid_from"]),
        "updated_at": _instant(row["created_at"]),
    }


def _item(row: dict[str, Any]) -> Item:
    return Item(**_parts(row))


def _search_item(row: dict[str, Any]) -> SearchItem:
    return SearchItem(**_parts(row), score=row.get("score"))


def _passes(value: Mapping[str, Any], conditions: Mapping[str, Any]) -> bool:
    return all(_compare(value.get(name), wanted) for name, wanted in conditions.items())


def _compare(found: Any, wanted: Any) -> bool:
    if not isinstance(wanted, dict) or not any(name.startswith("$") for name in wanted):
        return bool(found == wanted)
    for name, limit in wanted.items():
        if name not in _OPERATORS:
            raise UsageError(f"there is no operator `{name}`; use {', '.join(_OPERATORS)}")
        try:
            if not _OPERATORS[name](found, limit):
                return False
        except TypeError:
            # Values of different kinds have no order.
            return False
    return True


def _matches(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = condition.path
    if len(path) > len(namespace):
        return False
    is_prefix = condition.match_type == "prefix"
    part = namespace[: len(path)] if is_prefix else namespace[len(namespace) - len(path) :]
    pairs = zip(part, path, strict=True)
    return all(wanted == "*" or _normal(wanted) == given for given, wanted in pairs)
