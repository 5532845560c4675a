"""Kubernetes' protobuf: kubectl sends some objects in it, and WebAssembly guests are given pods and nodes in it."""

from mooring.api.protobuf.decode import ProtobufError, decode_message, decode_object
from mooring.api.protobuf.encode import encode_list, encode_message, encode_object

__all__ = ["ProtobufError", "decode_message", "decode_object", "encode_list", "encode_message", "encode_object"]
