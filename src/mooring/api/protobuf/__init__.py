"""Kubernetes' protobuf encoding, which kubectl uses for some objects and WebAssembly plugins for pods and nodes.

Hand-written because generated classes for all of Kubernetes are large and slow to import; a table of fields is enough.
"""

from mooring.api.protobuf.decode import ProtobufError, decode_message, decode_object
from mooring.api.protobuf.encode import encode_list, encode_message, encode_object

__all__ = ["ProtobufError", "decode_message", "decode_object", "encode_list", "encode_message", "encode_object"]
