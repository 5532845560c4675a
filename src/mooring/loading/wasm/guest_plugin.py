"""Plugin classes of guests, with a method for each function that the guest exports."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.framework import (
    ClusterEvent,
    Code,
    CycleState,
    NodeInfo,
    Nodes,
    PermitWait,
    Plugin,
    PodInfo,
    PostFilterResult,
    PreFilterResult,
    StateKey,
    Status,
    Verdicts,
)
from mooring.framework.events import CATCH_ALL
from mooring.framework.node_statuses import NodeStatuses
from mooring.framework.plugin_args import ArgsError, decode_args
from mooring.loading.load_errors import PluginLoadError
from mooring.loading.wasm import abi
from mooring.loading.wasm.batch_interface import Batch
from mooring.loading.wasm.guest import Guest, GuestError, GuestPlan, Pool, packed
from mooring.loading.wasm.guest_config import GuestArgs, fetch
from mooring.loading.wasm.host import Call, json_text
from mooring.loading.wasm.wasm_engine import engine, require_wasmtime
from mooring.logs import get_logger

if TYPE_CHECKING:
    from wasmtime import Module

Ints = npt.NDArray[np.int64]


class GuestPlugin(Plugin):
    """The base class of guests' plugin classes. `guest_plugin` derives a class with the exported methods."""

    Args = GuestArgs
    #: Whether the guest is called for each node. If so, sampling nodes saves time.
    per_node: ClassVar[bool] = True
    module: ClassVar[Module]
    exports: ClassVar[abi.Exports]
    #: The module's checksum.
    sha256: ClassVar[str]

    args: GuestArgs

    def setup(self) -> None:
        """Create the pool and the first instance, so that a guest that cannot start is detected now."""
        plan = GuestPlan(self.name, self.module, self.exports, self.args, self.handle)
        batch, config = self.exports.batch, self.args.guest_config

        def make() -> Guest:
            guest = Guest(plan)
            if batch:
                guest.batch = Batch(guest, config)
            return guest

        self._pool = Pool(self.name, make)
        self._scored: StateKey[Nodes] = StateKey(f"{self.name}/scored")

    def _guest(self, state: CycleState, pod: Pod) -> Guest:
        """Return the instance of an attempt. Call `prefilter` on a new one, so that it discards earlier state."""
        guest, fresh = self._pool.lease(state)
        if fresh and "prefilter" in self.exports.names:
            guest.call("prefilter", Call(pod=pod))
        return guest

    def _status(self, export: str, code: int, guest: Guest) -> Status | None:
        if code == Code.SUCCESS:
            return None
        if not 0 < code <= Code.PENDING:
            raise GuestError(export, f"the guest returned the status {code}; it must be 0 to {int(Code.PENDING)}")
        return Status(Code(code), (guest.reason,))

    def _point(self, export: str, state: CycleState, pod: Pod, node_name: str, *, keep: bool = True) -> Status | None:
        """Call the function of an extension point for a pod and its node."""
        guest = self._guest(state, pod)
        if keep:
            self._pool.keep(state)
        code = guest.call(export, Call(pod=pod, node_name=node_name))
        return self._status(export, code, guest)


def _events_to_register(self: GuestPlugin) -> tuple[ClusterEvent, ...]:
    call = Call()
    try:
        self._pool.lease(CycleState())[0].call("enqueue", call)
    except GuestError as error:
        get_logger("mooring").error("a guest failed to return its events", plugin=self.name, error=str(error))
    return call.events or CATCH_ALL


def _pre_filter(self: GuestPlugin, state: CycleState, pod: Pod, _nodes: Nodes) -> Status | PreFilterResult | None:
    guest, _ = self._pool.lease(state)
    call = Call(pod=pod)
    status = self._status("prefilter", guest.call("prefilter", call), guest)
    if status is None and call.node_names is not None:
        return PreFilterResult.only(call.node_names)
    return status


def _add_pod(self: GuestPlugin, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status | None:
    guest = self._guest(state, pod)
    code = guest.call("addpod", Call(pod=pod, target=added.pod, node_name=node.name))
    return self._status("addpod", code, guest)


def _remove_pod(self: GuestPlugin, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> Status | None:
    guest = self._guest(state, pod)
    code = guest.call("removepod", Call(pod=pod, target=removed.pod, node_name=node.name))
    return self._status("removepod", code, guest)


def _filter_nodes(self: GuestPlugin, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
    guest = self._guest(state, pod)
    if guest.batch is not None and "mooring_filter" in self.exports.names:
        return guest.batch.filter(guest, pod, nodes)
    answers, reason = guest.filter_all(pod, nodes)
    rejected = np.flatnonzero(answers)
    if not len(rejected):
        return None
    numbers: dict[tuple[int, str], int] = {}
    codes = np.zeros(len(nodes), dtype=np.int32)
    for place in rejected.tolist():
        status = (int(answers[place]), reason(place))
        codes[place] = numbers.setdefault(status, len(numbers) + 1)
    for code, _ in numbers:
        if not 0 < code <= Code.PENDING:
            raise GuestError("filter", f"the guest returned the status {code}; it must be 0 to {int(Code.PENDING)}")
    statuses = [Status(Code(code), (text,)) for code, text in numbers]
    return Verdicts(codes, lambda number: statuses[number - 1], may_fail=any(not s.is_rejected for s in statuses))


def _post_filter(
    self: GuestPlugin, state: CycleState, pod: Pod, statuses: NodeStatuses
) -> tuple[PostFilterResult, Status | None]:
    guest = self._guest(state, pod)
    call = Call(pod=pod, statuses=lambda: json_text(_codes(statuses)))
    mode, code = packed(guest.call("postfilter", call))
    if mode not in (0, 1):
        raise GuestError("postfilter", f"the guest returned the nominating mode {mode}; it must be 0 or 1")
    result = PostFilterResult(nominated_node=call.nominated_node if mode else None)
    return result, self._status("postfilter", code, guest)


def _codes(statuses: NodeStatuses) -> dict[str, int]:
    """Return the status codes of rejected nodes by name."""
    table = statuses.table
    return {
        table.nodes[row].name: int(status.code)
        for status, rows in statuses.groups()
        if status is not statuses.absent
        for row in rows.tolist()
    }


def _pre_score(self: GuestPlugin, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
    guest = self._guest(state, pod)
    call = Call(pod=pod, filtered_nodes=lambda: json_text(list(nodes.names)))
    return self._status("prescore", guest.call("prescore", call), guest)


def _score_nodes(self: GuestPlugin, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
    guest = self._guest(state, pod)
    if "normalizescore" in self.exports.names:
        state.write(self._scored, nodes)
    if guest.batch is not None and "mooring_score" in self.exports.names:
        return guest.batch.score(guest, pod, nodes)
    answers, reason = guest.score_all(pod, nodes)
    last = len(answers) - 1
    if last >= 0 and answers[last] & 0xFFFFFFFF:
        name, code = nodes[last].name, int(answers[last] & 0xFFFFFFFF)
        raise GuestError("score", f"{reason(last) or f'the guest returned the status {code}'} (node {name})")
    return answers >> 32


def _normalize_scores(self: GuestPlugin, state: CycleState, pod: Pod, scores: Ints) -> Ints:
    guest, names = self._guest(state, pod), state.read(self._scored).names
    by_name = dict(zip(names, scores.tolist(), strict=True))
    call = Call(pod=pod, scores=lambda: json_text(by_name))
    status = self._status("normalizescore", guest.call("normalizescore", call), guest)
    if status is not None:
        raise GuestError("normalizescore", status.message or f"the guest returned the status {int(status.code)}")
    if call.normalized is None:
        return scores
    if call.normalized.keys() != by_name.keys():
        raise GuestError("normalizescore", f"the guest returned {len(call.normalized)} scores for {len(by_name)} nodes")
    return np.array([call.normalized[name] for name in names], dtype=np.int64)


def _reserve(self: GuestPlugin, state: CycleState, pod: Pod, node_name: str) -> Status | None:
    return self._point("reserve", state, pod, node_name)


def _unreserve(self: GuestPlugin, state: CycleState, pod: Pod, node_name: str) -> None:
    try:
        self._point("unreserve", state, pod, node_name)
    finally:
        self._pool.release(state)


def _permit(self: GuestPlugin, state: CycleState, pod: Pod, node_name: str) -> Status | PermitWait | None:
    guest = self._guest(state, pod)
    self._pool.keep(state)
    code, milliseconds = packed(guest.call("permit", Call(pod=pod, node_name=node_name)))
    if code == Code.WAIT:
        return PermitWait(milliseconds % 2**32 / 1000)
    return self._status("permit", code, guest)


def _pre_bind(self: GuestPlugin, state: CycleState, pod: Pod, node_name: str) -> Status | None:
    return self._point("prebind", state, pod, node_name)


def _bind(self: GuestPlugin, state: CycleState, pod: Pod, node_name: str) -> Status | None:
    return self._point("bind", state, pod, node_name)


def _post_bind(self: GuestPlugin, state: CycleState, pod: Pod, node_name: str) -> None:
    try:
        self._point("postbind", state, pod, node_name)
    finally:
        self._pool.release(state)


_METHODS: Final[dict[str, Callable[..., Any]]] = {
    function.__name__.removeprefix("_"): function
    for function in (
        _events_to_register, _pre_filter, _add_pod, _remove_pod, _filter_nodes, _post_filter, _pre_score, _score_nodes,
        _normalize_scores, _reserve, _unreserve, _permit, _pre_bind, _bind, _post_bind,
    )
}  # fmt: skip


def guest_plugin(name: str, args: object) -> type[GuestPlugin]:
    """Fetch, compile and check a guest, and return its plugin class. ``args`` are its `pluginConfig[].args`.

    Raises PluginLoadError.
    """
    require_wasmtime(name)
    try:
        decoded: GuestArgs = decode_args(type(name, (GuestPlugin,), {"name": name}), args)
    except ArgsError as error:
        raise PluginLoadError(str(error)) from None
    return plugin_from_module(name, fetch(name, decoded), where=f"{name}: guestURL {decoded.guest_url}")


def plugin_from_module(name: str, binary: bytes, *, where: str = "") -> type[GuestPlugin]:
    """Compile and check a module, and return its plugin class. Raises PluginLoadError."""
    module = engine().compile(where or name, binary)
    exports = abi.check(where or name, module)
    members: dict[str, Any] = {method: _METHODS[method] for method in exports.methods}
    members |= {"name": name, "module": module, "exports": exports, "__doc__": f"The guest {name}."}
    members |= {"sha256": engine().digest(binary), "per_node": not exports.batch}
    return type(name, (GuestPlugin,), members)
