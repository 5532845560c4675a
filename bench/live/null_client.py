"""A client that only writes: it binds pending pods to the nodes in turn, as fast as the API server allows.

With devices, it sends the same writes as a scheduler: it allocates the devices of the nodes in turn. With `--watch`, it
also watches pods as a scheduler does, and binds new ones when they are created.

This is the upper bound for a scheduler with Mooring's client. `python -m bench.live.null_client --kubeconfig FILE`.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections import Counter, defaultdict
from collections.abc import Coroutine, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, TypeVar

import click
import msgspec

from bench.devices import DRIVER, RESOURCE, classes
from mooring.api import Event, Node, ObjectMeta, Pod
from mooring.api.affinity import NodeSelector
from mooring.api.devices import (
    CLAIM_FINALIZER,
    AllocationResult,
    DeviceAllocationResult,
    DeviceClaim,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimSpec,
)
from mooring.api.pod import ExtendedResourceClaimStatus
from mooring.kube import Change, Client, Reflector, load_access, reference
from mooring.live.claim_writer import ApiClaimWriter
from mooring.plugins.dynamic_resources.extended_resources import requests_and_mappings, special_claim

_replace = msgspec.structs.replace
T = TypeVar("T")


async def bind_all(kubeconfig: str, *, connections: int, events: bool) -> int:
    """Bind every pending pod to the next node. Return the number of pods."""
    async with Client(load_access(kubeconfig=kubeconfig)) as client:
        nodes = itertools.cycle([node.name for node in (await client.list(Node)).items])
        waiting = iter((await client.list(Pod, fields="spec.nodeName=")).items)
        claims = await _Claims.listed(client, nodes)
        numbers = itertools.count()

        async def binder(pods: Iterator[Pod]) -> None:
            for pod in pods:
                node = await claims.write(pod) or next(nodes)
                await client.bind(pod, node)
                number = next(numbers)
                if events:
                    await client.create_event(_event(pod, node, number))

        async with asyncio.TaskGroup() as group:
            for _ in range(connections):
                group.create_task(binder(waiting))
        return next(numbers)


async def follow(kubeconfig: str, *, connections: int) -> None:
    """Bind pending pods and new ones to the nodes in turn, with an event for each, until cancelled."""
    async with Client(load_access(kubeconfig=kubeconfig)) as client:
        nodes = itertools.cycle([node.name for node in (await client.list(Node)).items])
        waiting: asyncio.Queue[Pod] = asyncio.Queue()

        def changed(changes: list[Change[Pod]]) -> None:
            for old, new in changes:
                if old is None and new is not None and not new.node_name:
                    waiting.put_nowait(new)

        async def binder(numbers: Iterator[int]) -> None:
            while True:
                pod, node = await waiting.get(), next(nodes)
                await client.bind(pod, node)
                await client.create_event(_event(pod, node, next(numbers)))

        numbers = itertools.count()
        async with asyncio.TaskGroup() as group:
            group.create_task(Reflector(client, Pod, changed).run())
            for _ in range(connections):
                group.create_task(binder(numbers))


class _Claims:
    """Writes the claims of pods: a finalizer, the allocation and the reservation."""

    def __init__(self, client: Client, nodes: Iterator[str], claims: Iterable[ResourceClaim]) -> None:
        self._writer = ApiClaimWriter(client, lambda work: work.close())
        self._nodes = nodes
        self._claims = {claim.key: claim for claim in claims}
        self._placed: dict[str, str] = {}
        self._used: Counter[str] = Counter()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @classmethod
    async def listed(cls, client: Client, nodes: Iterator[str]) -> _Claims:
        """Read the claims."""
        return cls(client, nodes, (await client.list(ResourceClaim)).items)

    async def write(self, pod: Pod) -> str:
        """Write the claim of a pod and return its node; an empty text if it has no claim."""
        if RESOURCE in pod.requests:
            return await self._write_extended(pod)
        for entry in pod.spec.resource_claims:
            names = {each.name: each.resource_claim_name for each in pod.status.resource_claim_statuses}
            key = f"{pod.namespace}/{entry.resource_claim_name or names[entry.name]}"
            async with self._locks[key]:
                claim = self._claims[key]
                node = self._placed.get(key) or next(self._nodes)
                if claim.status.allocation is None:
                    metadata = _replace(claim.metadata, finalizers=(CLAIM_FINALIZER,))
                    claim = await self._writer.update(_replace(claim, metadata=metadata))
                self._claims[key] = await self._allocate(pod, claim, node)
                self._placed[key] = node
            return node
        return ""

    async def _write_extended(self, pod: Pod) -> str:
        requests, mappings = requests_and_mappings(pod, [RESOURCE], {RESOURCE: next(classes())})
        made = special_claim(pod, "")
        metadata = _replace(made.metadata, name="", finalizers=(CLAIM_FINALIZER,))
        spec = ResourceClaimSpec(devices=DeviceClaim(requests=requests))
        claim = await self._writer.create(_replace(made, metadata=metadata, spec=spec))
        node = next(self._nodes)
        await self._allocate(pod, claim, node)
        status = ExtendedResourceClaimStatus(request_mappings=mappings, resource_claim_name=claim.name)
        patch = {"status": {"extendedResourceClaimStatus": msgspec.to_builtins(status)}}
        await self._writer.patch_pod_status(pod, patch)
        return node

    async def _allocate(self, pod: Pod, claim: ResourceClaim, node: str) -> ResourceClaim:
        allocation = claim.status.allocation
        if allocation is None:
            (request,) = claim.spec.devices.requests
            name = "/".join([request.name, *(each.name for each in request.first_available[:1])])
            device = f"gpu-{self._used[node]}"
            self._used[node] += 1
            result = DeviceRequestAllocationResult(request=name, driver=DRIVER, pool=node, device=device)
            allocation = AllocationResult(
                devices=DeviceAllocationResult(results=(result,)), node_selector=_selector(node)
            )
        reference = ResourceClaimConsumerReference(resource="pods", name=pod.name, uid=pod.uid)
        reserved = (*claim.status.reserved_for, reference)
        status = _replace(claim.status, allocation=allocation, reserved_for=reserved)
        return await self._writer.update_status(_replace(claim, status=status), claim)


def _selector(node: str) -> NodeSelector:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return msgspec.convert({"nodeSelectorTerms": [{"matchFields": [field]}]}, NodeSelector)


def _event(pod: Pod, node: str, number: int) -> Event:
    return Event(
        metadata=ObjectMeta(name=f"{pod.name}.{number:x}", namespace=pod.namespace),
        event_time=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        reporting_controller="null-client",
        reporting_instance="null-client-1",
        action="Binding",
        reason="Scheduled",
        regarding=reference(pod),
        note=f"Successfully assigned {pod.namespace}/{pod.name} to {node}",
        type="Normal",
    )


async def _bind_and_stay(work: Coroutine[Any, Any, int]) -> None:
    """Keep running until terminated, so that the usage of this process can be read."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    print(f"{await work} pods bound", flush=True)
    await stopped.wait()


def run_fast(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, with uvloop if it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    return uvloop.run(main)


@click.command()
@click.option("--kubeconfig", required=True)
@click.option("--connections", default=128, show_default=True, help="Binds in flight.")
@click.option("--events", is_flag=True, help="Also send an event for each bind.")
@click.option("--watch", is_flag=True, help="Also watch pods, bind those that are created later, and send events.")
def main(kubeconfig: str, connections: int, events: bool, watch: bool) -> None:
    """Bind all pending pods to the nodes in turn."""
    if watch:
        run_fast(follow(kubeconfig, connections=connections))
        return
    run_fast(_bind_and_stay(bind_all(kubeconfig, connections=connections, events=events)))


if __name__ == "__main__":
    main()
