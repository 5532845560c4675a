"""Resources that are served but not stored: bindings, reviews and metrics."""

from typing import Final

from mooring.cluster.api_resource import CREATE_ONLY, METRICS, READ_ONLY, Resource
from mooring.cluster.kind import Kind
from mooring.cluster.schema.shape import OBJECT, Shape

_AUTHENTICATION: Final = "authentication.k8s.io"
_AUTHORIZATION: Final = "authorization.k8s.io"

VIRTUAL_KINDS: Final = (
    Kind(Resource("", "v1", "bindings", "Binding", verbs=CREATE_ONLY)),
    Kind(Resource(_AUTHENTICATION, "v1", "selfsubjectreviews", "SelfSubjectReview", False, verbs=CREATE_ONLY)),
    Kind(Resource(_AUTHENTICATION, "v1", "tokenreviews", "TokenReview", False, verbs=CREATE_ONLY)),
    Kind(Resource(_AUTHORIZATION, "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", verbs=CREATE_ONLY)),
    Kind(
        Resource(_AUTHORIZATION, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", False, verbs=CREATE_ONLY)
    ),
    Kind(Resource(_AUTHORIZATION, "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", False, verbs=CREATE_ONLY)),
    Kind(Resource(_AUTHORIZATION, "v1", "subjectaccessreviews", "SubjectAccessReview", False, verbs=CREATE_ONLY)),
    Kind(Resource(METRICS, "v1beta1", "nodes", "NodeMetrics", False, verbs=READ_ONLY, custom_shape=Shape(OBJECT))),
    Kind(Resource(METRICS, "v1beta1", "pods", "PodMetrics", verbs=READ_ONLY, custom_shape=Shape(OBJECT))),
)
