"""JSON patches, merge patches and strategic merge patches."""

from mooring.cluster.patching.json_patch import json_patch
from mooring.cluster.patching.merge_patch import merge_patch
from mooring.cluster.patching.strategic import strategic_merge_patch

__all__ = ["json_patch", "merge_patch", "strategic_merge_patch"]
