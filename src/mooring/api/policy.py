"""Pod disruption budgets and priority classes."""

from msgspec import field

from mooring.api.meta import Condition, KubeObject, LabelSelector, Model, NamespacedObject


class PodDisruptionBudgetSpec(Model, kw_only=True):
    """The selector and the limits of a budget."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Model, kw_only=True):
    """The allowed disruptions, and the pods being disrupted (name to time)."""

    observed_generation: int = 0
    disrupted_pods: dict[str, str] = field(default_factory=dict)
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(NamespacedObject, kw_only=True):
    """A pod disruption budget."""

    api_version: str = field(default_factory=lambda: "policy/v1")
    kind: str = field(default_factory=lambda: "PodDisruptionBudget")
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class PriorityClass(KubeObject, kw_only=True):
    """A priority class."""

    api_version: str = field(default_factory=lambda: "scheduling.k8s.io/v1")
    kind: str = field(default_factory=lambda: "PriorityClass")
    value: int = 0
    global_default: bool = False
    description: str = ""
    preemption_policy: str | None = None
