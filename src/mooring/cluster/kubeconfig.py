"""The kubeconfig with which kubectl and everybody else reaches the embedded cluster."""

import base64
import json


def kubeconfig_text(*, server: str, authority: str, token: str, name: str = "mooring") -> str:
    """A kubeconfig with one cluster, one user and one context. JSON is YAML too, but people like to read YAML."""
    data = base64.b64encode(authority.encode()).decode()
    quoted = json.dumps
    return (
        "apiVersion: v1\n"
        "kind: Config\n"
        f"current-context: {name}\n"
        "clusters:\n"
        f"- name: {name}\n"
        "  cluster:\n"
        f"    server: {server}\n" + (f"    certificate-authority-data: {data}\n" if authority else "") + "contexts:\n"
        f"- name: {name}\n"
        "  context:\n"
        f"    cluster: {name}\n"
        f"    user: {name}-admin\n"
        "users:\n"
        f"- name: {name}-admin\n"
        "  user:\n"
        f"    token: {quoted(token)}\n"
    )
