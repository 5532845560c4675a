"""Kubernetes' protobuf: kubectl sends some objects in it, and does not ask whether one would rather have JSON."""

from mooring.cluster.protobuf.decode import ProtobufError, decode_object

__all__ = ["ProtobufError", "decode_object"]
