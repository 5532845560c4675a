"""The kinds of the embedded cluster, each in its module: defaults, validation, admission, table and controller."""

from typing import Final

from mooring.cluster.kinds.api_service import API_SERVICE
from mooring.cluster.kinds.certificate_signing_request import CERTIFICATE_SIGNING_REQUEST
from mooring.cluster.kinds.config_map import CONFIG_MAP, SECRET
from mooring.cluster.kinds.controller_revision import CONTROLLER_REVISION
from mooring.cluster.kinds.cron_job import CRON_JOB
from mooring.cluster.kinds.custom_resource_definition import CUSTOM_RESOURCE_DEFINITION
from mooring.cluster.kinds.daemon_set import DAEMON_SET
from mooring.cluster.kinds.deployment import DEPLOYMENT
from mooring.cluster.kinds.event import EVENT
from mooring.cluster.kinds.horizontal_pod_autoscaler import HORIZONTAL_POD_AUTOSCALER
from mooring.cluster.kinds.ingress import INGRESS, INGRESS_CLASS, NETWORK_POLICY
from mooring.cluster.kinds.job import JOB
from mooring.cluster.kinds.lease import LEASE
from mooring.cluster.kinds.limit_range import LIMIT_RANGE
from mooring.cluster.kinds.namespace import NAMESPACE
from mooring.cluster.kinds.node import NODE
from mooring.cluster.kinds.persistent_volume import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from mooring.cluster.kinds.pod import POD, POD_TEMPLATE
from mooring.cluster.kinds.pod_disruption_budget import POD_DISRUPTION_BUDGET
from mooring.cluster.kinds.priority_class import PRIORITY_CLASS
from mooring.cluster.kinds.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING, SERVICE_ACCOUNT
from mooring.cluster.kinds.replica_set import REPLICA_SET, REPLICATION_CONTROLLER
from mooring.cluster.kinds.resource_claim import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE
from mooring.cluster.kinds.resource_quota import RESOURCE_QUOTA
from mooring.cluster.kinds.runtime_class import RUNTIME_CLASS
from mooring.cluster.kinds.service import ENDPOINT_SLICE, ENDPOINTS, SERVICE
from mooring.cluster.kinds.stateful_set import STATEFUL_SET
from mooring.cluster.kinds.storage_class import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
    VOLUME_ATTRIBUTES_CLASS,
)
from mooring.cluster.kinds.virtual import VIRTUAL_KINDS
from mooring.cluster.kinds.webhook_configuration import (
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_ADMISSION_POLICY,
    VALIDATING_ADMISSION_POLICY_BINDING,
    VALIDATING_WEBHOOK_CONFIGURATION,
)

#: All built-in kinds. The controllers run in this order.
KINDS: Final = (
    NAMESPACE,
    DEPLOYMENT,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    CONTROLLER_REVISION,
    DAEMON_SET,
    JOB,
    CRON_JOB,
    POD,
    POD_TEMPLATE,
    POD_DISRUPTION_BUDGET,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    VOLUME_ATTACHMENT,
    VOLUME_ATTRIBUTES_CLASS,
    EVENT,
    CONFIG_MAP,
    SECRET,
    SERVICE_ACCOUNT,
    SERVICE,
    ENDPOINTS,
    ENDPOINT_SLICE,
    INGRESS,
    INGRESS_CLASS,
    NETWORK_POLICY,
    ROLE,
    CLUSTER_ROLE,
    ROLE_BINDING,
    CLUSTER_ROLE_BINDING,
    RESOURCE_QUOTA,
    LIMIT_RANGE,
    PRIORITY_CLASS,
    RUNTIME_CLASS,
    LEASE,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    DEVICE_CLASS,
    CUSTOM_RESOURCE_DEFINITION,
    HORIZONTAL_POD_AUTOSCALER,
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_WEBHOOK_CONFIGURATION,
    VALIDATING_ADMISSION_POLICY,
    VALIDATING_ADMISSION_POLICY_BINDING,
    API_SERVICE,
    CERTIFICATE_SIGNING_REQUEST,
    *VIRTUAL_KINDS,
)
