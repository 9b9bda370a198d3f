"""The store of LangGraph, through LangGraph's own interface."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import gristmill as gm

pytest.importorskip("langgraph.store.base")

from gristmill.langgraph import RELATION, GristmillStore  # noqa: E402

ADA = ("memories", "ada")


@pytest.fixture
def store(lake: gm.Lake) -> GristmillStore:
    return GristmillStore(lake, user_position=1)


def test_items_are_put_changed_and_deleted(store: GristmillStore, lake: gm.Lake) -> None:
    assert store.get(ADA, "drink") is None
    store.put(ADA, "drink", {"text": "likes tea", "n": 1})
    first = store.get(ADA, "drink")
    assert first is not None and first.value == {"text": "likes tea", "n": 1}
    store.put(ADA, "drink", {"text": "likes coffee"})
    second = store.get(ADA, "drink")
    assert second is not None and second.value == {"text": "likes coffee"}
    assert second.created_at == first.created_at and second.updated_at > first.updated_at
    store.put(ADA, "drink", {"text": "likes coffee"})
    store.delete(ADA, "drink")
    assert store.get(ADA, "drink") is None
    store.delete(ADA, "drink")
    versions = "SELECT 1 FROM beliefs WHERE subject = 'drink'"
    assert len(lake.sql(versions)) == 3, "the history stays"


def test_an_item_that_two_processes_put_is_changed_and_deleted_as_one(
    store: GristmillStore, lake: gm.Lake
) -> None:
    def put_twice(key: str) -> None:
        for created_at in (1767225600000, 1767225601000):
            grain = {
                "type": "belief", "subject": key, "relation": RELATION, "confidence": 1.0,
                "object": f'{{"n": {created_at}}}', "namespace": "memories:ada",
                "valid_from": created_at, "created_at": created_at,
            }  # fmt: skip
            assert lake.apply([{"op": "put", "grain": grain}])[0]["ok"]

    put_twice("deleted")
    found = store.get(ADA, "deleted")
    assert found is not None and found.value == {"n": 1767225601000}
    store.delete(ADA, "deleted")
    assert store.get(ADA, "deleted") is None
    put_twice("changed")
    store.put(ADA, "changed", {"n": 3})
    assert [item.value for item in store.search(ADA)] == [{"n": 3}]
    put_twice("found")
    found_again = [item.value for item in store.search(ADA) if item.key == "found"]
    assert found_again == [{"n": 1767225601000}]
    assert store.search(ADA, query="1767225600000") == [], "an older value is no item"


def test_items_that_are_put_at_the_same_time_are_one(store: GristmillStore, lake: gm.Lake) -> None:
    async def put_all() -> None:
        stores = [store, GristmillStore(lake, user_position=1)]
        puts = (given.aput(ADA, "drink", {"n": n}) for n in range(4) for given in stores)
        await asyncio.gather(*puts)

    asyncio.run(put_all())
    assert [item.key for item in store.search(ADA)] == ["drink"]
    assert len(lake.sql("SELECT 1 FROM current WHERE subject = 'drink'")) == 1


def test_names_of_another_normal_form_are_the_same(store: GristmillStore) -> None:
    decomposed = ("memories", "Rene\u0301")
    store.put(decomposed, "cafe\u0301", {"n": 1})
    store.put(("memories", "Ren\u00e9"), "caf\u00e9", {"n": 2})
    found = store.get(decomposed, "cafe\u0301")
    assert found is not None and found.value == {"n": 2}
    assert len(store.search(decomposed)) == 1
    assert store.list_namespaces(prefix=decomposed) == [("memories", "Ren\u00e9")]


def test_searches_filter_rank_and_page(store: GristmillStore) -> None:
    for number in range(5):
        store.put(("memories", f"u-{number}"), "note", {"text": f"tea {number}", "n": number})
    store.put(("other",), "note", {"text": "tea", "n": 9})
    found = store.search(("memories",))
    assert [item.value["n"] for item in found] == [4, 3, 2, 1, 0]
    assert [item.value["n"] for item in store.search(("memories",), limit=2, offset=1)] == [3, 2]
    assert len(store.search(("memories", "u-1"))) == 1
    assert len(store.search(("mem",))) == 0, "a prefix ends at a part"
    filtered = store.search(("memories",), filter={"n": {"$gte": 2, "$lt": 4}})
    assert [item.value["n"] for item in filtered] == [3, 2]
    assert [item.value["n"] for item in store.search(("memories",), filter={"n": 1})] == [1]
    ranked = store.search(("memories",), query="what about tea 3?")
    assert len(ranked) == 5 and ranked[0].value["n"] == 3
    assert ranked[0].score is not None
    store.put(("memories", "u-3"), "note", {"text": "water"})
    assert all(item.value.get("n") != 3 for item in store.search(("memories",), query="tea"))


def test_a_filter_reads_further_pages_until_enough_items_pass(
    store: GristmillStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gristmill.langgraph._CANDIDATES", 2)
    for number in range(5):
        store.put(("memories", f"u-{number}"), "note", {"n": number, "old": number < 2})
    found = store.search(("memories",), filter={"old": True})
    assert [item.value["n"] for item in found] == [1, 0]
    found = store.search(("memories",), filter={"old": True}, limit=1, offset=1)
    assert [item.value["n"] for item in found] == [0]


def test_a_query_may_be_a_whole_message(store: GristmillStore) -> None:
    store.put(ADA, "note", {"text": "green tea"})
    long = "tea " + " ".join(f"word{number}" for number in range(500)) + " " + "x" * 10_000
    for query in (long, "x" * 10_000 + " tea"):
        assert [item.key for item in store.search(("memories",), query=query)] == ["note"]


def test_namespaces_are_listed(store: GristmillStore) -> None:
    for namespace in [("a", "b", "c"), ("a", "b", "d"), ("a", "x"), ("z",)]:
        store.put(namespace, "k", {"v": 1})
    assert store.list_namespaces(prefix=("a",), max_depth=2) == [("a", "b"), ("a", "x")]
    assert store.list_namespaces(suffix=("d",)) == [("a", "b", "d")]
    assert store.list_namespaces(prefix=("a", "*", "c")) == [("a", "b", "c")]
    assert store.list_namespaces(limit=1, offset=1) == [("a", "b", "d")]


def test_the_asynchronous_interface_does_the_same(store: GristmillStore) -> None:
    async def run() -> object:
        await store.aput(ADA, "drink", {"text": "tea"})
        item = await store.aget(ADA, "drink")
        return item and item.value

    assert asyncio.run(run()) == {"text": "tea"}


def test_items_of_a_person_are_found_by_an_erasure(store: GristmillStore, lake: gm.Lake) -> None:
    store.put(ADA, "drink", {"text": "tea"})
    store.put(("memories", "bob"), "drink", {"text": "coffee"})
    assert lake.erase(user="ada").table["selected"]["grains"] >= 1


def test_what_the_store_cannot_keep_is_refused(store: GristmillStore, tmp_path: Path) -> None:
    with pytest.raises(gm.UsageError, match=":"):
        store.put(("a:b",), "k", {"v": 1})
    with pytest.raises(gm.UsageError, match="operator"):
        store.put(ADA, "k", {"v": 1})
        store.search(ADA, filter={"v": {"$near": 1}})
    with pytest.raises(gm.UsageError, match="index"):
        store.put(ADA, "k", {"v": 1}, index=["v"])


def test_an_item_without_index_is_found_by_its_key_and_not_by_words(
    store: GristmillStore,
) -> None:
    store.put(ADA, "shown", {"text": "green tea"})
    store.put(ADA, "hidden", {"text": "green tea, secretly"}, index=False)
    assert [item.key for item in store.search(ADA, query="tea")] == ["shown"]
    assert {item.key for item in store.search(ADA)} == {"shown", "hidden"}
    hidden = store.get(ADA, "hidden")
    assert hidden is not None and hidden.value == {"text": "green tea, secretly"}
    store.put(ADA, "hidden", {"text": "green tea, openly"})
    assert {item.key for item in store.search(ADA, query="tea")} == {"shown", "hidden"}
