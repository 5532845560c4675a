"""The controller manager: one client, one set of informers, one reconcile loop, leader election, health and metrics."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Final

import msgspec

from mooring.api.volcano_jobs import VolcanoJob
from mooring.apiserver.volcano_admission.review import AdmissionSettings
from mooring.controllers.admission.webhook import AdmissionWebhook
from mooring.controllers.admission.webhook_certificates import CertificateSettings, WebhookCertificates
from mooring.controllers.controller_metrics import ControllerMetrics
from mooring.controllers.hyper_nodes import HyperNodeDiscoveryReconciler, HyperNodeStatusReconciler
from mooring.controllers.jobs import JobReconciler, JobTTLReconciler
from mooring.controllers.jobs.cron_jobs import CronJobReconciler
from mooring.controllers.jobs.job_flows import JobFlowReconciler, JobTemplateReconciler
from mooring.controllers.jobs.job_plugin_files import JobPluginFiles
from mooring.controllers.jobs.job_plugins import JobPluginClasses
from mooring.controllers.pod_groups import PodGroupReconciler
from mooring.controllers.queues import QueueReconciler
from mooring.controllers.reconcile_loop import ReconcileLoop
from mooring.controllers.reconciler import Context, Reconciler, Selection, Settings
from mooring.controllers.ufm_discovery import UfmDiscoveryReconciler
from mooring.controllers.volcano_detection import VolcanoDetector
from mooring.kube import Access, Change, Client, ElectionSettings, EventRecorder, Leadership, LostLeaseError
from mooring.live import ServerError, ServerSettings
from mooring.live.custom import Informer
from mooring.live.endpoints.client_ca import ClientCa
from mooring.live.endpoints.endpoint_auth import EndpointAuth
from mooring.live.endpoints.endpoint_server import EndpointServer, Extension, Sources
from mooring.live.endpoints.scheduler_endpoints import Endpoints, lease_check, synced_check
from mooring.loading.catalog import NOTHING, Requested
from mooring.logs import get_logger
from mooring.observe.process_metrics import ProcessMetrics, RestClientMetrics
from mooring.unexpected_errors import report_unexpected

log = get_logger("mooring.controller")

RECONCILERS: Final[tuple[type[Reconciler], ...]] = (
    QueueReconciler,
    PodGroupReconciler,
    JobReconciler,
    JobTTLReconciler,
    CronJobReconciler,
    JobFlowReconciler,
    JobTemplateReconciler,
    HyperNodeDiscoveryReconciler,
    UfmDiscoveryReconciler,
    HyperNodeStatusReconciler,
)
_DETECTION_SECONDS: Final = 5.0
_GRACE_SECONDS: Final = 5.0
#: How long leaving a `ControllerThread` waits for the thread.
_JOIN_SECONDS: Final = 10.0
_HINT: Final = "`mooring batch install` installs its CustomResourceDefinition"


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the admission webhook."""

    #: The paths to serve, such as /jobs/validate.
    paths: tuple[str, ...]
    rules: AdmissionSettings = AdmissionSettings()
    certificates: CertificateSettings = CertificateSettings()


class ManagerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the controller manager."""

    settings: Settings = Settings()
    #: None disables leader election.
    election: ElectionSettings | None = None
    #: The address of health and metrics; None to serve neither.
    serve: ServerSettings | None = None
    #: The job plugins that the command line names.
    job_plugins: Requested = NOTHING
    #: The admission webhook, on the address of health and metrics; None for none.
    webhook: WebhookSettings | None = None
    qps: float = 50.0
    burst: int = 100


class ControllerManager:
    """Runs controllers until cancelled."""

    def __init__(
        self,
        access: Access,
        settings: ManagerSettings,
        *,
        reconcilers: Sequence[type[Reconciler]] = RECONCILERS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        requests = RestClientMetrics(access.server)
        leads = self._leadership = Leadership(access, settings.election, observer=requests)
        self._client = Client(
            access, qps=settings.qps, burst=settings.burst, may_write=leads.may_write, observer=requests
        )
        self._client.failures.rbac_command = "mooring rbac --controller"
        self._events = EventRecorder(self._client)
        self.metrics = ControllerMetrics()
        process = ProcessMetrics(requests, lease=leads.lease, is_leader=lambda: leads.is_leader)
        process.register(self.metrics.registry)
        self._job_plugins = JobPluginFiles(settings.job_plugins)
        context = self._context = Context(
            self._client,
            self._events,
            settings=settings.settings,
            metrics=self.metrics,
            clock=clock,
            job_plugins=self._job_plugins.load(),
        )
        self._client.on_invalid = context.record_invalid
        self._reconcilers = [kind(context) for kind in reconcilers]
        self.loop = ReconcileLoop(context.cache, self._reconcilers, self.metrics)
        selections = [each for reconciler in self._reconcilers for each in reconciler.selections()]
        self._informers = _informers(self._client, selections, self.loop.apply)
        self._volcano = VolcanoDetector(self._client, clock)
        #: Set when the informers have synced and the lease, if any, is held.
        self.ready = asyncio.Event()
        #: How Volcano's controllers were detected; empty if they do not run.
        self.detected_volcano = ""
        #: Health and metrics, if they are served.
        self.server: Endpoints | None = None
        self._certificates: WebhookCertificates | None = None
        if settings.serve is not None:
            self.server = self._endpoints(settings.serve, settings.webhook)
        elif settings.webhook is not None:
            raise ServerError(
                "--enabled-admission: the webhook is served on the secure port; --secure-port must not be 0"
            )

    def _endpoints(self, settings: ServerSettings, webhook: WebhookSettings | None) -> Endpoints:
        """Return the endpoints, which are not served yet. Raises ServerError."""
        ready = {"informer-sync": synced_check(self._lagging)}
        extensions: list[Extension] = []
        if webhook is not None:
            extensions.append(AdmissionWebhook(self._context, webhook.paths, webhook.rules))
            ready["webhook-certificate"] = lambda: self._certificates.problem() if self._certificates else None
        sources = Sources(
            metrics=self.metrics.render,
            resources=lambda _accept: (b"", "text/plain; version=0.0.4; charset=utf-8"),
            config=dict,
            decisions=lambda _limit: [],
            live={"leaderElection": lease_check(lambda: self._leadership.thread)},
            ready=ready,
        )
        client_ca = ClientCa(settings, self._client.access)
        auth = EndpointAuth(client_ca.authenticate, client_ca.authorize, settings.auth)
        server = EndpointServer(settings, sources, auth, extensions=extensions)
        if webhook is not None:
            self._certificates = WebhookCertificates(
                self._client, webhook.certificates, leads=lambda: self._leadership.is_leader, use=server.serve_as
            )
        return Endpoints(server, client_ca)

    def _lagging(self) -> list[str]:
        """Return the kinds that are served but not synced."""
        return [selection.resource.kind for selection, informer in self._informers.items() if informer.lags]

    async def run(self) -> None:
        """Run until cancelled. Raises LostLeaseError if another process becomes the leader, and ServerError."""
        try:
            if self.server is not None:
                await self.server.start()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._events.run(), name="events")
                if self._certificates is not None:
                    tasks.create_task(self._certificates.run(), name="webhook certificates")
                tasks.create_task(self._job_plugins.watch(self._use_job_plugins), name="job plugins")
                for selection, informer in self._informers.items():
                    tasks.create_task(informer.run(), name=f"watch {selection.resource.kind}")
                tasks.create_task(self._leadership.hold(self._client.failures), name="lease")
                for informer in self._informers.values():
                    await informer.ready.wait()
                await self._leadership.acquired.wait()
                for reconciler in self._reconcilers:
                    for key in reconciler.initial_keys():
                        self.loop.put(reconciler, key)
                tasks.create_task(self.loop.run(), name="reconcile")
                try:
                    await self._pause_while_volcano_runs()
                finally:
                    self.loop.pause()
                    if not self._leadership.lost:
                        await asyncio.shield(self._events.drain(_GRACE_SECONDS))
        except* LostLeaseError as lost:
            raise LostLeaseError(str(lost.exceptions[0])) from None
        finally:
            if self.server is not None:
                await self.server.stop()
            await self._client.close()

    def _use_job_plugins(self, classes: JobPluginClasses) -> None:
        """Use other job plugins from now on, and reconcile all jobs, because some may have waited for them."""
        self._context.job_plugins = classes
        for reconciler in self._reconcilers:
            if isinstance(reconciler, JobReconciler):
                for key in self._context.cache.all(VolcanoJob):
                    self.loop.put(reconciler, key)

    async def _pause_while_volcano_runs(self) -> None:
        """Run the loop. While Volcano's controllers run, pause the controllers that Volcano has too."""
        while True:
            try:
                detected = await self._volcano.detect()
            except Exception as error:
                report_unexpected("looking for Volcano's controllers failed", error)
                detected = self.detected_volcano
            if detected and detected != self.detected_volcano:
                log.warning("Volcano's controllers are running; pausing Mooring's", detected=detected)
            elif not detected and (self.detected_volcano or not self.ready.is_set()):
                log.info("Controllers started", controllers=[each.name for each in self._reconcilers])
            self.detected_volcano = detected
            self.metrics.acting.set(not detected)
            self.loop.resume(without=[each for each in self._reconcilers if detected and each.volcano])
            self.ready.set()
            await asyncio.sleep(_DETECTION_SECONDS)


def _informers(
    client: Client, selections: Iterable[Selection], apply: Callable[[list[Change[Any]]], None]
) -> dict[Selection, Informer]:
    """Return one informer for each distinct selection. A kind need not be served yet."""
    return {
        selection: Informer(
            client,
            selection.resource,
            apply,
            hint=lambda kind: f"no {kind} is reconciled until then; {_HINT}",
            labels=selection.labels,
            fields=selection.fields,
        )
        for selection in dict.fromkeys(selections)
    }


class ControllerThread:
    """Runs the controllers on a thread with an event loop and a client of their own, while the context is entered.

    An error in the controllers is logged and ends only this thread.
    """

    def __init__(self, access: Access, settings: ManagerSettings) -> None:
        self._access = access
        self._settings = settings
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._main, name="mooring-controllers", daemon=True)

    def __enter__(self) -> ControllerThread:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._task is not None:
            # RuntimeError: the loop has already ended.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(_JOIN_SECONDS)

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except asyncio.CancelledError:
            return
        except Exception as error:
            log.error("Controllers stopped", error=str(error))
        finally:
            self._started.set()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._started.set()
        await ControllerManager(self._access, self._settings).run()
