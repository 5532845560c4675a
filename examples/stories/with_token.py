"""Prints a kubeconfig of the same cluster with a token: `with_token.py KUBECONFIG TOKEN`."""

import base64
import sys

from mooring.kube import load_access


def kubeconfig_for(kubeconfig: str, token: str) -> str:
    access = load_access(kubeconfig=kubeconfig)
    authority = base64.b64encode(access.ca or b"").decode()
    return (
        "apiVersion: v1\nkind: Config\ncurrent-context: story\n"
        "clusters:\n- name: story\n"
        f"  cluster: {{server: '{access.server}', certificate-authority-data: {authority}}}\n"
        "contexts: [{name: story, context: {cluster: story, user: story}}]\n"
        f"users: [{{name: story, user: {{token: '{token}'}}}}]\n"
    )


if __name__ == "__main__":
    sys.stdout.write(kubeconfig_for(*sys.argv[1:]))
