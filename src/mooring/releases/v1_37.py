"""What kube-scheduler 1.37 changed since 1.36."""

from __future__ import annotations

from typing import Final

import msgspec

from mooring.releases.gates import changed_table, gate_stages
from mooring.releases.v1_36 import V1_36

GATES: Final = changed_table(
    V1_36.gates,
    on="""
    AllowUnsafeMalformedObjectDeletion ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode
    EtcdRangeStream ExcludeAdmissionWebhookVirtualResources HPAGeneration
    HPAOptimizedSelectorStore HPAScaleToZero HugepageAwareEviction KubeProxyIPVS KubeletInUserNamespace
    ManifestBasedAdmissionControlConfig MaxUnavailableStatefulSet MemoryQoS NFTablesNetlink NativeHistograms
    NodeControllerLeaseCircuitBreaker PersistentVolumeClaimUnusedSinceTime PodCertificateRequest
    PodLevelResourcesFixDefaulting PodLevelResourcesFixKubeletQOSClass PodsAPI SELinuxMount
    StaleControllerConsistencyHPA StorageCapacityScoring StorageVersionMigrator VolumeLimitScaling
    WatchListCompression WebhookRoundTripLoadBalancing
    """,
    # DRAFractionalCapacityRange is on only with --min-compatibility-version=1.37.
    off="""
    DRAFractionalCapacityRange
    APIServerWebhookAuthenticationToken AtomicWriteVolumeUserFields CompositePodGroup
    ConsistentListFromCacheSkipTimeoutFallback DRADerivedAttributes DRADeviceCompatibilityGroups
    DRAOptionalNodeOperations DRAPartitionableDevicesType DefaultPodSysctls EmptyDirVolumeMode EvictionRequestAPI
    GRPCContainerProbeTLS H2CContainerProbe InPlacePodVerticalScalingMemoryBackedVolumes
    InPlacePodVerticalScalingSchedulerPreemption InterPodAffinityHostnameFastPath
    KubeProxyNFTablesLocalhostNodePorts KubeletAllocatedPodsEndpoint NodeLifecycleConditions
    PodGroupPreemptionPolicy SchedulerPreQueueingHints StatefulSetRecreateStrategy VolumeBindMountOptions
    """,
    locked_on="""
    DRADeviceTaintRules DRADeviceTaints DRAExtendedResource DRAPrioritizedList DRAResourceClaimDeviceStatus
    DisableCPUQuotaWithExclusiveCPUs HPAConfigurableTolerance HostnameOverride
    InPlacePodVerticalScalingInitContainers NodeDeclaredFeatures PLEGOnDemandRelist
    PodReadyToStartContainersCondition RelaxedServiceNameValidation WatchCacheInitializationPostStartHook
    """,
    locked_off="DeclarativeValidationTakeover",
    removed="""
    APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AuthorizeNodeWithSelectors
    AuthorizeWithSelectors BtreeWatchCache ConsistentListFromCache GangScheduling JobBackoffLimitPerIndex
    JobPodReplacementPolicy JobSuccessPolicy LogarithmicScaleDown OrderedNamespaceDeletion PodLifecycleSleepAction
    PodLifecycleSleepActionAllowZero PreventStaticPodAPIReferences RelaxedDNSSearchValidation
    ResilientWatchCacheInitialization RetryGenerateName SchedulerQueueingHints SidecarContainers
    StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration
    WorkloadAwarePreemption
    """,
)

V1_37: Final = msgspec.structs.replace(
    V1_36,
    version="1.37",
    reference="v1.37.1",
    api_versions={},
    gates=GATES,
    stages=gate_stages(
        GATES,
        off_in_beta="""
        CoordinatedLeaderElection DRAFractionalCapacityRange DRAWorkloadResourceClaims GenericWorkload
        LocalStorageCapacityIsolationFSQuotaMonitoring PodAndContainerStatsFromCRI PodLevelResourceManagers
        SchedulerAsyncAPICalls
        """,
        stable="""
        AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests AllowServiceExternalIPs
        ChangeContainerStatusOnKubeletRestart ClusterTrustBundle ClusterTrustBundleProjection CustomCPUCFSQuotaPeriod
        H2CContainerProbe InformerResourceVersion KMSv1 KubeProxyIPVS KubeletPodResourcesListUseActivePods
        KubeletRegistrationGetOnExistsOnly MutatingAdmissionPolicy PodCertificateRequest SELinuxMount
        ServiceCIDRStatusFieldWiping StorageNamespaceIndex StorageVersionMigrator UnauthenticatedHTTP2DOSMitigation
        WindowsHostNetwork
        """,
    ),
    # NodeName comes before NodeUnschedulable.
    default_plugins=(
        "SchedulingGates PrioritySort NodeName NodeUnschedulable TaintToleration:3 NodeAffinity:2 NodePorts"
        " NodeResourcesFit:1 VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone PodTopologySpread:2"
        " InterPodAffinity:2 DynamicResources:2 DefaultPreemption NodeResourcesBalancedAllocation:1 ImageLocality:1"
        " DefaultBinder NodeDeclaredFeatures GangScheduling TopologyPlacementGenerator PodGroupPodsCount:1"
    ),
    plugin_points={
        **V1_36.plugin_points,
        "DefaultPreemption": "preEnqueue postFilter podGroupPostFilter",
        "DeferredPodScheduling": "preFilter filter permit",
        "DynamicResources": "preEnqueue preFilter filter postFilter podGroupPostFilter score reserve preBind",
        "NodeName": "preFilter filter",
        "NodeUnschedulable": "preFilter filter",
        "TaintToleration": "preFilter filter preScore score",
    },
    group_points=("podGroupPostFilter", *V1_36.group_points),
    node_name_narrows=True,
    image_volumes_raise_bound=True,
    namespace_selector_is_exact=True,
    resized_requests_by_sum=True,
    stops_at_violated_budget=True,
    selectors_read_lists=True,
    cel_go=29,
    includes_reads_long_lists=True,
    constraints_read_lists=True,
    bare_taint_rules_select_all=False,
    selector_errors_name_device=True,
    device_limit_by_request=True,
    writes_device_configs_once=True,
    distinct_attribute_compares_all=True,
    checks_capacity_requests=True,
    all_devices_need_room=True,
    bare_shares_use_counters=True,
    counter_slices_select_nodes=True,
    refuses_alpha_device_fields=True,
    allocations_skip_operations=True,
    preemption_reports_success=True,
    reports_no_deallocation=False,
    taints_requeue_like_new_nodes=False,
    own_pod_event="TargetPod",
    new_pod_event="UnscheduledPodAdd",
    unknown_pod_event="UnscheduledPodAdd",
    any_anti_affinity_term_requeues=True,
    claim_deletion_requeues=True,
    entity_metrics=True,
    shared_claim_metric=True,
    retries_bindings=True,
)
