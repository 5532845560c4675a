"""AssumeCache: assumed versions of claims."""

from __future__ import annotations

import msgspec
import pytest

from mooring.api.storage import PersistentVolumeClaim
from mooring.plugins.volume_binding import VolumeBinding
from mooring.plugins.volume_binding.assume_cache import AssumeCache, AssumeError
from mooring.testing import PluginHarness, make_pvc
from mooring.testing.storage_builders import BIND_COMPLETED


def stored(item: PersistentVolumeClaim, version: int) -> PersistentVolumeClaim:
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, resource_version=str(version)))


def claim(name: str, version: int = 1) -> PersistentVolumeClaim:
    return stored(make_pvc(name).obj(), version)


class TestAssumeCache:
    def cache(self, *items: PersistentVolumeClaim) -> tuple[AssumeCache[PersistentVolumeClaim], PluginHarness]:
        harness = PluginHarness(VolumeBinding, objects=items)
        return AssumeCache(harness.handle.lister(PersistentVolumeClaim), "persistentvolumeclaims"), harness

    def test_deleted_and_newer_objects_cannot_be_assumed(self):
        cache, _ = self.cache(claim("data", version=2))
        with pytest.raises(AssumeError, match=r'^persistentvolumeclaims "default/gone" not found$'):
            cache.assume(claim("gone"))
        with pytest.raises(AssumeError, match=r'^"default/data" is out of sync \(stored: 2, assume: 1\)$'):
            cache.assume(claim("data", version=1))

    def test_an_object_is_assumed_until_restored_or_deleted(self):
        item = claim("data")
        cache, harness = self.cache(item)
        assumed = stored(make_pvc("data").annotation({BIND_COMPLETED: "yes"}).obj(), 1)
        cache.assume(assumed)
        assert cache.get("data", "default") is assumed
        assert cache.stored("data", "default") is item
        cache.restore(claim("data", version=9))
        assert cache.get("data", "default") is assumed
        cache.restore(assumed)
        assert cache.get("data", "default") is item
        cache.assume(assumed)
        harness.handle.objects.remove(item)
        assert cache.get("data", "default") is None
        harness.add(item)
        assert cache.get("data", "default") is item
