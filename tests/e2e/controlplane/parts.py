"""What a control plane is made of: the programs, their versions, and where the built ones lie."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: The version of Kubernetes that Mooring is held against.
KUBERNETES: Final = "1.36.4"
ETCD: Final = "3.6.8"
KWOK: Final = "0.8.0"
HELM: Final = "3.18.0"
CONTROLLER_RUNTIME: Final = "0.24.1"


@dataclass(frozen=True)
class Part:
    """One program: its name, the Go module that it is built in, and the package of its main function."""

    name: str
    version: str
    #: Key of `MODULES`. Parts of one module share what is compiled.
    module: str
    #: A package with a main function, or a folder of our module that holds one (`./etcd`).
    package: str
    #: Whether tests in general cannot do without it; some may need others too.
    needed: bool = True


@dataclass(frozen=True)
class Module:
    """A Go module that we write into the cache, so as to build programs of other modules in it."""

    name: str
    #: What it requires: module path -> version.
    requires: dict[str, str]
    #: The module whose `v0.0.0` requirements are replaced, and the version that they are replaced by.
    staging_of: str = ""
    staging_version: str = ""
    #: Further files: path -> content.
    files: tuple[tuple[str, str], ...] = ()
    #: A folder of ours with the Go files of a program; it is built again when they change.
    sources: Path | None = None


_STAGING: Final = "v0." + KUBERNETES.split(".", 1)[1]
_ETCD_MAIN: Final = """\
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""

MODULES: Final = {
    "kubernetes": Module(
        name="kubernetes",
        requires={"k8s.io/kubernetes": f"v{KUBERNETES}", "go.etcd.io/etcd/server/v3": f"v{ETCD}"},
        staging_of="k8s.io/kubernetes",
        staging_version=_STAGING,
        files=(("etcd/main.go", _ETCD_MAIN),),
    ),
    # The same Kubernetes libraries as above rather than KWOK's own, slightly older ones: they are compiled only once.
    "kwok": Module(
        name="kwok",
        requires={
            "sigs.k8s.io/kwok": f"v{KWOK}",
            **{
                f"k8s.io/{name}": _STAGING
                for name in (
                    "api", "apimachinery", "apiserver", "client-go", "component-base", "cri-api", "cri-client",
                    "cri-streaming",
                )
            },
        },
    ),
    # An operator of ours, for the embedded cluster.
    "operator": Module(
        name="operator",
        requires={
            "sigs.k8s.io/controller-runtime": f"v{CONTROLLER_RUNTIME}",
            **{f"k8s.io/{name}": _STAGING for name in ("api", "apimachinery", "client-go")},
        },
        sources=Path(__file__).parents[1] / "embedded" / "controller_runtime",
    ),
    "helm": Module(name="helm", requires={"helm.sh/helm/v3": f"v{HELM}"}),
}  # fmt: skip

#: In the order in which they are built: what most tests wait for comes first.
PARTS: Final = (
    Part("kubectl", KUBERNETES, "kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    Part("etcd", ETCD, "kubernetes", "./etcd"),
    Part("kube-apiserver", KUBERNETES, "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    Part("kube-scheduler", KUBERNETES, "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Part("kwok", KWOK, "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    Part("kube-controller-manager", KUBERNETES, "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    Part("operator", CONTROLLER_RUNTIME, "operator", ".", needed=False),
    Part("helm", HELM, "helm", "helm.sh/helm/v3/cmd/helm", needed=False),
)


def cache_folder() -> Path:
    """Where the built programs lie: outside the checkout, and one folder for each version of Kubernetes."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "mooring" / "controlplane" / KUBERNETES


def binary(name: str) -> Path:
    """Where a program lies once it is built."""
    return cache_folder() / name
