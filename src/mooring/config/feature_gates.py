"""The feature gates of kube-scheduler 1.36, and which of them have an effect."""

from __future__ import annotations

from typing import Final

from mooring.config.config_errors import nearest


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Enabled by default.
_ON: Final = _names(
    """
    APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth AllowServiceExternalIPs AtomicFIFO
    AuthorizePodWebsocketUpgradeCreatePermission CPUCFSQuotaPeriod CPUManagerPolicyBetaOptions
    CRDObservedGenerationTracking ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation
    ClientsAllowTLSCacheGC ComponentFlagz ComponentStatusz ConstrainedImpersonation ContainerCheckpoint
    ContainerRestartRules ContextualLogging DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints
    DRAExtendedResource DRAPartitionableDevices DRAPrioritizedList DRAResourceClaimDeviceStatus
    DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout DeclarativeValidationBeta
    DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency DisableCPUQuotaWithExclusiveCPUs EnvFiles
    ExtendWebSocketsToKubelet GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority
    HPAConfigurableTolerance HostnameOverride InOrderInformersBatchProcess
    InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScalingInitContainers InformerResourceVersion
    KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages KubeletPodResourcesListUseActivePods
    KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot
    LoggingBetaOptions MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge
    MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs MutatingAdmissionPolicy
    NodeDeclaredFeatures NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching PLEGOnDemandRelist
    PodDeletionCost PodLevelResources PodReadyToStartContainersCondition PodTopologyLabelsAdmission
    PortForwardWebsockets PreventStaticPodAPIReferences RelaxedServiceNameValidation ReloadKubeletClientCAFile
    ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus ResourceHealthStatusMessage
    RestartAllContainersOnContainerExits RotateKubeletServerCertificate SchedulerAsyncPreemption
    SchedulerPopFromBackoffQ ServiceAccountNodeAudienceRestriction ServiceCIDRStatusFieldWiping
    SizeBasedListCostEstimate StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob
    StaleControllerConsistencyReplicaSet StaleControllerConsistencyStatefulSet
    StatefulSetSemanticRevisionComparison StorageNamespaceIndex StorageVersionHash StrictIPCIDRValidation
    StructuredAuthenticationConfigurationEgressSelector StructuredAuthenticationConfigurationJWKSMetrics
    TokenRequestServiceAccountUIDValidation TopologyManagerPolicyBetaOptions
    TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation UnknownVersionInteroperabilityProxy
    UnlockWhileProcessingFIFO WatchCacheInitializationPostStartHook WatchList WatchListClient
    WindowsGracefulNodeShutdown
    """
)
#: Disabled by default.
_OFF: Final = _names(
    """
    APIServingWithRoutine AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests
    AllowUnsafeMalformedObjectDeletion CBORServingAndStorage CPUManagerPolicyAlphaOptions CRIListStreaming
    CSIVolumeHealth ChangeContainerStatusOnKubeletRestart ClientsAllowCBOR ClientsPreferCBOR
    CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook ClusterTrustBundle
    ClusterTrustBundleProjection ConcurrentWatchObjectDecode ContainerStopSignals CoordinatedLeaderElection
    CrossNamespaceVolumeDataSource DRADeviceTaintRules DRAListTypeAttributes DRANodeAllocatableResources
    DRAResourcePoolStatus DRAWorkloadResourceClaims DeclarativeValidationTakeover EventedPLEG GangScheduling
    GenericWorkload HPAScaleToZero ImageVolumeWithDigest InPlacePodVerticalScalingExclusiveCPUs
    InPlacePodVerticalScalingExclusiveMemory KMSv1 KubeletInUserNamespace KubeletRegistrationGetOnExistsOnly
    LocalStorageCapacityIsolationFSQuotaMonitoring LoggingAlphaOptions ManifestBasedAdmissionControlConfig
    MaxUnavailableStatefulSet MemoryQoS MutablePVNodeAffinity NativeHistograms
    PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI PodCertificateRequest
    PodLevelResourceManagers PodLogsQuerySplitStreams PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay
    RuntimeClassInImageCriApi SELinuxMount SchedulerAsyncAPICalls ShardedListAndWatch StorageCapacityScoring
    StorageVersionAPI StorageVersionMigrator TaintTolerationComparisonOperators TopologyAwareWorkloadScheduling
    TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport VolumeLimitScaling
    WindowsCPUAndMemoryAffinity WindowsHostNetwork WorkloadAwarePreemption WorkloadWithJob
    """
)
#: Locked to true.
_LOCKED_ON: Final = _names(
    """
    APIServerTracing AggregatedDiscoveryRemoveBetaType AnonymousAuthConfigurableEndpoints AnyVolumeDataSource
    AuthorizeNodeWithSelectors AuthorizeWithSelectors BtreeWatchCache CPUManagerPolicyOptions
    CRDValidationRatcheting CSIServiceAccountTokenSecrets ConsistentListFromCache CustomResourceFieldSelectors
    DRAAdminAccess DeclarativeValidation DisableAllocatorDualWrite DisableNodeKubeProxyVersion
    DynamicResourceAllocation ExecProbeTimeout ExternalServiceAccountTokenSigner ImageMaximumGCAge ImageVolume
    InOrderInformers InPlacePodVerticalScaling JobBackoffLimitPerIndex JobManagedBy JobPodReplacementPolicy
    JobSuccessPolicy KubeletCgroupDriverFromCRI KubeletFineGrainedAuthz KubeletPSI
    KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletTracing LogarithmicScaleDown
    MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator MutableCSINodeAllocatableCount NFTablesProxyMode
    NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap OrderedNamespaceDeletion
    PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PodObservedGenerationTracking
    PodSchedulingReadiness PreferSameTrafficDistribution ProcMountType RecoverVolumeExpansionFailure
    RecursiveReadOnlyMounts RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation
    ResilientWatchCacheInitialization RetryGenerateName SELinuxChangePolicy SELinuxMountReadWriteOncePod
    SchedulerQueueingHints SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
    ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo SidecarContainers
    StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf
    StructuredAuthenticationConfiguration SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions
    UserNamespacesSupport VolumeAttributesClass WinDSR WinOverlay
    """
)
#: Locked to false.
_LOCKED_OFF: Final = _names(
    """
    AllowOverwriteTerminationGracePeriodSeconds GitRepoVolumeDriver SeparateCacheWatchRPC
    """
)
#: Gates that change the decisions of kube-scheduler. Mooring supports only their defaults.
_DECISIVE: Final = _names(
    """
    CoordinatedLeaderElection DRAAdminAccess DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaintRules
    DRADeviceTaints DRAExtendedResource DRAListTypeAttributes DRANodeAllocatableResources DRAPartitionableDevices
    DRAPrioritizedList DRAResourceClaimDeviceStatus DRASchedulerFilterTimeout DRAWorkloadResourceClaims
    DynamicResourceAllocation GangScheduling GenericWorkload InPlacePodLevelResourcesVerticalScaling
    InPlacePodVerticalScaling MatchLabelKeysInPodTopologySpread NodeDeclaredFeatures
    NodeInclusionPolicyInPodTopologySpread NominatedNodeNameForExpectation PodLevelResources SchedulerQueueingHints
    SidecarContainers StorageCapacityScoring TaintTolerationComparisonOperators TopologyAwareWorkloadScheduling
    VolumeAttributesClass VolumeLimitScaling WorkloadAwarePreemption
    """
)
_ALL: Final = frozenset({"AllAlpha", "AllBeta"})


class GateError(ValueError):
    """An invalid value of a feature gate; the message has the reason and the remedy."""


def check_gates(wanted: dict[str, bool]) -> list[str]:
    """Return notes about gates without effect. Raises GateError for values that are not supported."""
    notes = []
    for name, value in wanted.items():
        default = _default(name)
        word = "true" if value else "false"
        if value == default and name != "AllBeta":
            continue
        if name in _LOCKED_ON | _LOCKED_OFF:
            locked = "true" if default else "false"
            raise GateError(f"cannot set feature gate {name} to {word}, feature is locked to {locked}; remove it")
        if name in _DECISIVE | _ALL:
            raise GateError(
                f"{name}={word} changes how kube-scheduler decides; Mooring decides as kube-scheduler does by default. "
                "Remove it, or use kube-scheduler for pods that need it"
            )
        notes.append(f"{name}={word} has no effect on a scheduler")
    return notes


def _default(name: str) -> bool:
    if name in _ON | _LOCKED_ON:
        return True
    if name in _OFF | _LOCKED_OFF | _ALL:
        return False
    close = nearest(name, sorted(_ON | _OFF | _LOCKED_ON | _LOCKED_OFF))
    hint = f"; did you mean {close}?" if close else "; kube-scheduler 1.36 has none of this name"
    raise GateError(f"unrecognized feature gate: {name}{hint}")
