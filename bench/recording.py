"""The cost of recording and the speed of replays: `python -m bench.recording`.

The same pods run through engines with and without a recording, without an API server, in alternating rounds. The
difference in CPU time, including the thread that compresses, is what recording costs. The recording is then replayed.
"""

from __future__ import annotations

import asyncio
import gc
import random
import statistics
import tempfile
import time

import click
import msgspec

from bench.decide import GC_THRESHOLDS
from bench.workloads import WORKLOADS, node
from mooring.api.pod import Pod
from mooring.config import default_config
from mooring.live.endpoints.scheduler_endpoints import make_observer
from mooring.live.recording import LiveRecording
from mooring.scheduler.attempt_results import AssumedPod
from mooring.scheduler.engine import Engine
from mooring.scheduler.recorded_engine import RecordedEngine
from mooring.simulation.replay import replay

_ROUNDS = 5


@click.command()
@click.option("--nodes", default=5000, show_default=True)
@click.option("--pods", default=2000, show_default=True, help="Pods per round.")
@click.option("--workload", type=click.Choice(list(WORKLOADS)), default="mixed", show_default=True)
@click.option("--rounds", default=_ROUNDS, show_default=True)
@click.option(
    "--cpu-ms-per-pod", default=3.1, show_default=True, help="What a bound pod costs the scheduler and the API server."
)
@click.option("--events", default=0, help="Instead, record at least this many events, and replay them.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(nodes: int, pods: int, workload: str, rounds: int, cpu_ms_per_pod: float, events: int, output: str) -> None:
    """Measure the CPU time and the size of a recording, and replay it.

    If the scheduler and the server use all cores, as in `make bench-live`, the share of the CPU time of a pod is the
    loss of throughput.
    """
    gc.set_threshold(*GC_THRESHOLDS)
    with tempfile.TemporaryDirectory() as folder:
        recording = LiveRecording(folder, default_config(), seed=1)
        recorded = _engine(nodes, recording)
        found: dict[str, float] = {}
        if not events:
            plain = _engine(nodes, None)
            times: dict[bool, list[float]] = {True: [], False: []}
            for number in range(rounds + 1):  # the first one warms up
                for kept in (True, False) if number % 2 else (False, True):
                    taken = _run(recorded if kept else plain, workload, number * pods, pods)
                    if number:
                        times[kept].append(taken)
            with_recording, without = (statistics.median(times[kept]) * 1e6 for kept in (True, False))
            cost = with_recording - without
            found |= {
                "us_per_pod_recorded": round(with_recording, 1),
                "us_per_pod_plain": round(without, 1),
                "cost_us": round(cost, 1),
                "cost_percent": round(cost / 10 / cpu_ms_per_pod, 2),
            }
        else:
            number = 0
            while recording.writer.records < events:
                _run(recorded, workload, number * pods, pods)
                number += 1
        recording.close()
        writer = recording.writer
        found |= {"events": writer.records, "bytes_per_event": round(writer.bytes / writer.records, 1)}
        started = time.perf_counter()
        result = replay(writer.path)
        seconds = time.perf_counter() - started
        found |= {
            "replay_seconds": round(seconds, 2),
            "replay_events_per_s": round(result.events / seconds),
            "decisions": result.decisions,
            "different": result.different,
        }
    if output == "json":
        print(msgspec.json.encode(found).decode())
        return
    if not events:
        print(
            f"{workload}, {nodes:,} nodes: {found['us_per_pod_recorded']:.0f} us a pod recorded, "
            f"{found['us_per_pod_plain']:.0f} without; recording costs {found['cost_us']:.0f} us a pod: "
            f"{found['cost_percent']} % of {cpu_ms_per_pod} ms of scheduler and server"
        )
    print(f"{writer.records:,} events, {found['bytes_per_event']} bytes an event")
    print(
        f"replay: {result.events:,} events and {result.decisions:,} decisions in {seconds:.1f} s, "
        f"{result.different:,} differ"
    )


def _engine(nodes: int, recording: LiveRecording | None) -> Engine:
    watch = make_observer(time.time, records=True)
    engine = (
        Engine(default_config(), rng=random.Random(1), observer=watch)
        if recording is None
        else RecordedEngine(
            default_config(),
            inputs=recording.inputs,
            describe=lambda config: recording.describe(config, plugins=tuple),
            rng=recording.rng,
            observer=watch,
        )
    )
    for number in range(nodes):
        engine.put(node(number))
    return engine


def _run(engine: Engine, workload: str, first: int, count: int) -> float:
    """Return the CPU seconds per pod: its event, its decision, its bind, the event of the bind, and its deletion."""
    make = WORKLOADS[workload]
    pods = [_complete(make(number), number) for number in range(first, first + count)]
    gc.collect()
    gc.freeze()
    started = time.process_time()
    asyncio.run(_drain(engine, pods))
    return (time.process_time() - started) / count


def _complete(pod: Pod, number: int) -> Pod:
    """Return a pod with the metadata that an API server adds."""
    metadata = msgspec.structs.replace(
        pod.metadata,
        uid=f"{random.Random(number).getrandbits(128):032x}",
        resource_version=str(number),
        creation_timestamp="2026-01-01T00:00:00Z",
    )
    return msgspec.structs.replace(pod, metadata=metadata)


async def _drain(engine: Engine, pods: list[Pod]) -> None:
    for pod in pods:
        engine.put(pod)
    bound: list[Pod] = []
    while engine.queue.ready:
        outcome = engine.schedule_one()
        if isinstance(outcome, AssumedPod) and await engine.bind(outcome) is None:
            engine.put(outcome.pod)
            bound.append(outcome.pod)
    for pod in bound:
        engine.remove(pod)


if __name__ == "__main__":
    main()
