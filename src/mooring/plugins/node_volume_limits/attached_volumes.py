"""CSI volumes attached to each node: those of its pods and those of its VolumeAttachment objects."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.pod import Pod
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from mooring.columns.counts import Counts
from mooring.framework import Handle, PodInfo, PodListener
from mooring.plugins.node_volume_limits.csi_volumes import CSIVolume, VolumeResolver
from mooring.plugins.volumes.pod_volumes import ClaimUse, claim_class, ownership_fault, volumes_of

_NOTHING: frozenset[CSIVolume] = frozenset()


class Attachments:
    """VolumeAttachment objects by node, converted to rows on demand."""

    def __init__(self, handle: Handle) -> None:
        self._table = handle.table
        self._volumes = handle.lister(PersistentVolume)
        #: Node -> its attachments by name.
        self._by_node: dict[str, dict[str, VolumeAttachment]] = {}
        #: Persistent volume -> (attachment -> node).
        self._nodes_of: dict[str, dict[str, str]] = {}
        self._cursor = self._table.node_cursor(survives_resize=True)
        self._rows: dict[int, frozenset[CSIVolume]] = {}
        attachments = handle.lister(VolumeAttachment)
        for attachment in attachments.list():
            self._changed(None, attachment)
        attachments.listen(self._changed)
        self._volumes.listen(self._volume_changed)

    def _changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if old is not None:
            node = old.spec.node_name
            self._cursor.mark(node)
            self._by_node.get(node, {}).pop(old.name, None)
            self._nodes_of.get(old.spec.source.persistent_volume_name or "", {}).pop(old.name, None)
        if new is not None:
            node = new.spec.node_name
            self._cursor.mark(node)
            self._by_node.setdefault(node, {})[new.name] = new
            self._nodes_of.setdefault(new.spec.source.persistent_volume_name or "", {})[new.name] = node

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        volume = new or old
        if volume is not None:
            for node in self._nodes_of.get(volume.name, {}).values():
                self._cursor.mark(node)

    def on_row(self, row: int) -> frozenset[CSIVolume]:
        """Return the volumes attached on a row, as of the last ``changes``."""
        return self._rows.get(row, _NOTHING)

    def changes(self) -> Iterator[tuple[int, frozenset[CSIVolume], frozenset[CSIVolume]]]:
        """Yield the rows whose attached volumes changed, with the volumes before and now."""
        if self._cursor.current:
            return
        table, size = self._table, len(self._table)
        for row in [row for row in self._rows if row >= size]:
            yield row, self._rows.pop(row), _NOTHING
        rows = self._cursor.changed(size // 2)
        self._cursor.advance()
        if not self._by_node and not self._rows:
            return
        for row in range(size) if rows is None else rows:
            before, now = self.on_row(row), self._on_node(table.nodes[row].name)
            if before != now:
                self._rows[row] = now
                yield row, before, now

    def _on_node(self, name: str) -> frozenset[CSIVolume]:
        attachments = self._by_node.get(name)
        if not attachments:
            return _NOTHING
        found = set()
        for attachment in attachments.values():
            driver, volume_name = attachment.spec.attacher, attachment.spec.source.persistent_volume_name
            volume = self._volumes.get(volume_name) if driver and volume_name is not None else None
            if volume is not None and volume.spec.csi is not None:
                found.add(CSIVolume(driver, volume.spec.csi.volume_handle))
        return frozenset(found)


ClaimKey = tuple[str, str]


class _Users:
    """The users of one volume: pods by row, and rows with an attachment."""

    __slots__ = ("attachments", "pods")

    def __init__(self) -> None:
        self.pods = Counts()
        self.attachments: set[int] = set()

    def on(self, row: int) -> bool:
        return row in self.attachments or self.pods.get(row) > 0


class _Claim:
    """A claim that placed pods use: their rows, its volume, and the objects that the volume was derived from."""

    __slots__ = ("class_name", "owners", "rows", "volume", "volume_name")

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.volume: CSIVolume | None = None
        self.volume_name = ""
        self.class_name = ""
        #: Pods that use it as an ephemeral volume, by uid, with their row and whether it belongs to another pod.
        self.owners: dict[str, tuple[Pod, int, bool]] = {}


class AttachedVolumes(PodListener):
    """An index of the attached volumes. Call ``sync`` before reading."""

    volumes_only = True

    def __init__(self, handle: Handle) -> None:
        self.resolver = VolumeResolver(handle)
        self._claims: dict[ClaimKey, _Claim] = {}
        self._by_volume: dict[str, set[ClaimKey]] = {}
        self._by_class: dict[str, set[ClaimKey]] = {}
        self._stale: set[ClaimKey] = set()
        self._users: dict[CSIVolume, _Users] = {}
        #: Driver -> volumes by row.
        self.counts: dict[str, Counts] = {}
        #: Invalid uses by row: kube-scheduler reports an error there.
        self.faults = Counts()
        self.attachments = Attachments(handle)
        handle.lister(PersistentVolumeClaim).listen(self._claim_changed)
        handle.lister(PersistentVolume).listen(self._volume_changed)
        handle.lister(StorageClass).listen(self._class_changed)
        handle.listen(self)

    # Queries

    def sync(self) -> None:
        """Apply the changes since the last call."""
        while self._stale:
            key = self._stale.pop()
            claim = self._claims.get(key)
            if claim is not None:
                self._resolve(key, claim)
        for row, before, now in self.attachments.changes():
            for volume in before - now:
                self._set_attached(volume, row, attached=False)
            for volume in now - before:
                self._set_attached(volume, row, attached=True)

    def pods_with(self, volume: CSIVolume) -> Counts | None:
        """Return the number of pods that use a volume, by row; None if there are none."""
        users = self._users.get(volume)
        return users.pods if users is not None and users.pods.total else None

    # Changes of pods

    def pod_added(self, info: PodInfo, row: int) -> None:
        """Count the volumes of a pod that was added to a row."""
        self._pod_changed(info, row, 1)

    def pod_removed(self, info: PodInfo, row: int) -> None:
        """Remove the volumes of a pod that was removed from a row."""
        self._pod_changed(info, row, -1)

    def _pod_changed(self, info: PodInfo, row: int, delta: int) -> None:
        for use in volumes_of(info.template).uses:
            if isinstance(use, ClaimUse):
                name = use.claim_name(info.pod)
                if name:
                    self._claim_used((info.namespace, name), info.pod, row, delta, made_for_it=use.ephemeral)
                else:
                    self.faults.add(row, delta)
            elif use.fault:
                self.faults.add(row, delta)
            else:
                self._count(CSIVolume(use.driver, use.handle), row, delta)

    def _claim_used(self, key: ClaimKey, pod: Pod, row: int, delta: int, *, made_for_it: bool) -> None:
        claim = self._claims.get(key)
        if claim is None:
            claim = self._claims[key] = _Claim()
            self._resolve(key, claim)
        if claim.volume is not None:
            self._count(claim.volume, row, delta)
        users = claim.rows.get(row, 0) + delta
        if users:
            claim.rows[row] = users
        else:
            del claim.rows[row]
        if made_for_it:
            self._own(claim, key, pod, row, delta)
        if not claim.rows:
            self._depend(key, claim, "", "")
            del self._claims[key]

    def _own(self, claim: _Claim, key: ClaimKey, pod: Pod, row: int, delta: int) -> None:
        if delta > 0:
            fault = self._is_not_for(key, pod)
            claim.owners[pod.uid] = (pod, row, fault)
        else:
            fault = claim.owners.pop(pod.uid)[2]
        if fault:
            self.faults.add(row, delta)

    def _is_not_for(self, key: ClaimKey, pod: Pod) -> bool:
        claim = self.resolver.claim(*key)
        return claim is not None and ownership_fault(pod, claim) is not None

    # Changes of objects

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        claim = new or old
        if claim is not None:
            key = (claim.namespace, claim.name)
            if key in self._claims:
                self._stale.add(key)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        volume = new or old
        if volume is not None:
            self._stale |= self._by_volume.get(volume.name, set())

    def _class_changed(self, old: StorageClass | None, new: StorageClass | None) -> None:
        storage_class = new or old
        if storage_class is not None:
            self._stale |= self._by_class.get(storage_class.name, set())

    # Bookkeeping

    def _resolve(self, key: ClaimKey, claim: _Claim) -> None:
        """Determine the volume of a claim again."""
        found = self.resolver.claim(*key)
        self._depend(key, claim, found.spec.volume_name if found else "", claim_class(found) if found else "")
        before, now = claim.volume, self.resolver.of_claim(found) if found is not None else None
        if before != now:
            claim.volume = now
            for row, pods in claim.rows.items():
                if before is not None:
                    self._count(before, row, -pods)
                if now is not None:
                    self._count(now, row, pods)
        for uid, (pod, row, faulty) in claim.owners.items():
            fault = self._is_not_for(key, pod)
            if fault != faulty:
                claim.owners[uid] = (pod, row, fault)
                self.faults.add(row, 1 if fault else -1)

    def _depend(self, key: ClaimKey, claim: _Claim, volume_name: str, class_name: str) -> None:
        _refile(self._by_volume, key, claim.volume_name, volume_name)
        _refile(self._by_class, key, claim.class_name, class_name)
        claim.volume_name, claim.class_name = volume_name, class_name

    def _count(self, volume: CSIVolume, row: int, delta: int) -> None:
        users = self._users_of(volume)
        before = users.on(row)
        users.pods.add(row, delta)
        self._recount(volume, users, row, before=before)

    def _set_attached(self, volume: CSIVolume, row: int, *, attached: bool) -> None:
        users = self._users_of(volume)
        before = users.on(row)
        if attached:
            users.attachments.add(row)
        else:
            users.attachments.discard(row)
        self._recount(volume, users, row, before=before)

    def _users_of(self, volume: CSIVolume) -> _Users:
        users = self._users.get(volume)
        if users is None:
            users = self._users[volume] = _Users()
        return users

    def _recount(self, volume: CSIVolume, users: _Users, row: int, *, before: bool) -> None:
        now = users.on(row)
        if now != before:
            counts = self.counts.get(volume.driver)
            if counts is None:
                counts = self.counts[volume.driver] = Counts()
            counts.add(row, 1 if now else -1)
        if not users.pods.total and not users.attachments:
            del self._users[volume]


def _refile(index: dict[str, set[ClaimKey]], key: ClaimKey, old: str, new: str) -> None:
    if old == new:
        return
    if old:
        keys = index[old]
        keys.discard(key)
        if not keys:
            del index[old]
    if new:
        index.setdefault(new, set()).add(key)
