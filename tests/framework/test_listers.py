"""Listers: live objects, selectors and indexes."""

from __future__ import annotations

import gc

from mooring.api.meta import ObjectMeta
from mooring.framework import CustomResource, Handle, Lister, Plugin


class Report(CustomResource, group="example.com", version="v1", scope="Cluster"):
    zone: str = ""


def made(kind: type[CustomResource], name: str, namespace: str = "", labels: dict[str, str] | None = None, **fields):
    return kind(metadata=ObjectMeta(name=name, namespace=namespace, labels=labels or {}), **fields)


class Reader(Plugin):
    reports = Lister(Report)

    def setup(self) -> None:
        self.by_zone = self.reports.index(lambda report: report.zone or None)

    def score(self, state, pod, node):
        return 0


def test_a_plugin_reads_live_objects() -> None:
    handle = Handle()
    handle.objects.put(made(Report, "a", zone="east"))
    plugin = Reader(handle=handle)
    handle.objects.put(made(Report, "b", labels={"tier": "x"}, zone="west"))
    assert plugin.reports.get("a").zone == "east"
    assert {each.name for each in plugin.reports.list()} == {"a", "b"}
    assert [each.name for each in plugin.reports.list(selector={"tier": "x"})] == ["b"]
    assert [each.name for each in plugin.by_zone.get("west")] == ["b"]
    handle.objects.put(made(Report, "b", zone="east"))
    handle.objects.remove(made(Report, "a"))
    assert [each.name for each in plugin.by_zone.get("east")] == ["b"]
    assert plugin.by_zone.get("west") == []


def test_an_unreferenced_index_is_not_updated() -> None:
    handle = Handle()
    lister = handle.lister(Report)
    index = lister.index(lambda report: (report.zone, report.name))
    handle.objects.put(made(Report, "a", zone="east"))
    assert [len(index.get(key)) for key in ("east", "a", "b")] == [1, 1, 0]
    del index
    gc.collect()
    assert len(lister._indexes) == 0
