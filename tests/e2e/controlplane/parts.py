"""What a control plane is made of: the programs, their versions, and where the built ones lie."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: The version of Kubernetes that all tests run on, and of the tools that do not depend on the API server's version.
MAIN: Final = "1.36.4"
#: The version under test: that of the environment variable K8S, such as 1.37.1.
KUBERNETES: Final = os.environ.get("K8S") or MAIN
ETCD: Final = "3.6.8"
KWOK: Final = "0.8.0"
HELM: Final = "3.18.0"
CONTROLLER_RUNTIME: Final = "0.24.1"
VOLCANO: Final = "1.15.1"


@dataclass(frozen=True)
class Part:
    """One program: its name, the Go module that it is built in, and the package of its main function."""

    name: str
    version: str
    #: Key of `MODULES`. Parts of one module share what is compiled.
    module: str
    #: The version of Kubernetes in whose folder it lies.
    folder: str
    #: A package with a main function, or a folder of our module that holds one (`./etcd`).
    package: str
    #: Whether tests in general cannot do without it; some may need others too.
    needed: bool = True
    #: Whether it is built only when it is named.
    on_request: bool = False


@dataclass(frozen=True)
class ModuleCopy:
    """A Go module that is copied and completed by files of our own, because the wanted version is not published."""

    path: str
    version: str
    #: Path -> content.
    files: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Module:
    """A Go module that we write into the cache, so as to build programs of other modules in it."""

    name: str
    #: The version of Kubernetes in whose folder it lies.
    folder: str
    #: What it requires: module path -> version.
    requires: dict[str, str]
    #: The module whose `v0.0.0` requirements are replaced, and the version that they are replaced by.
    staging_of: str = ""
    staging_version: str = ""
    #: The module whose own replacements of modules by modules are repeated.
    replaces_of: str = ""
    #: Modules that are replaced by completed copies.
    copies: tuple[ModuleCopy, ...] = ()
    #: Further files: path -> content.
    files: tuple[tuple[str, str], ...] = ()
    #: A folder of this repository with the Go files of a program; it is built again when they change.
    sources: Path | None = None


_ETCD_MAIN: Final = """\
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
"""

# What Volcano 1.15 uses and the newest published version of its API module does not have.
_VOLCANO_API: Final = """\
package v1beta1

// QueueAllocationGateKey is the scheduling gate of pods that wait for room in their queue.
const QueueAllocationGateKey = GroupName + "/queue-allocation-gate"
"""


def _staging(version: str) -> str:
    return "v0." + version.split(".", 1)[1]


def _kubernetes(version: str) -> Module:
    # Older releases use an older client of etcd, which cannot be built together with this etcd.
    with_etcd = _numbers(version) >= _numbers(MAIN)
    return Module(
        name="kubernetes",
        folder=version,
        requires={
            "k8s.io/kubernetes": f"v{version}",
            **({"go.etcd.io/etcd/server/v3": f"v{ETCD}"} if with_etcd else {}),
        },
        staging_of="k8s.io/kubernetes",
        staging_version=_staging(version),
        files=(("etcd/main.go", _ETCD_MAIN),) if with_etcd else (),
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


MODULES: Final = {
    **{f"kubernetes {version}": _kubernetes(version) for version in (MAIN, KUBERNETES)},
    # The same Kubernetes libraries as above rather than KWOK's own, slightly older ones: they are compiled only once.
    "kwok": Module(
        name="kwok",
        folder=MAIN,
        requires={
            "sigs.k8s.io/kwok": f"v{KWOK}",
            **{
                f"k8s.io/{name}": _staging(MAIN)
                for name in (
                    "api", "apimachinery", "apiserver", "client-go", "component-base", "cri-api", "cri-client",
                    "cri-streaming",
                )
            },
        },
    ),
    # An operator, for the embedded cluster.
    "operator": Module(
        name="operator",
        folder=MAIN,
        requires={
            "sigs.k8s.io/controller-runtime": f"v{CONTROLLER_RUNTIME}",
            **{f"k8s.io/{name}": _staging(MAIN) for name in ("api", "apimachinery", "client-go")},
        },
        sources=Path(__file__).parents[1] / "embedded" / "controller_runtime",
    ),
    # The API module of Volcano 1.15 exists only in its repository.
    "volcano": Module(
        name="volcano",
        folder=MAIN,
        requires={"volcano.sh/volcano": f"v{VOLCANO}"},
        replaces_of="volcano.sh/volcano",
        copies=(
            ModuleCopy(
                "volcano.sh/apis", "v1.14.0", (("pkg/apis/scheduling/v1beta1/added_in_1_15.go", _VOLCANO_API),)
            ),
        ),
    ),
    "helm": Module(name="helm", folder=MAIN, requires={"helm.sh/helm/v3": f"v{HELM}"}),
}  # fmt: skip

_OF_MAIN: Final = f"kubernetes {MAIN}"
_UNDER_TEST: Final = f"kubernetes {KUBERNETES}"
#: In the order in which they are built: what most tests wait for comes first.
PARTS: Final = (
    Part("kubectl", MAIN, _OF_MAIN, MAIN, "k8s.io/kubernetes/cmd/kubectl"),
    Part("etcd", ETCD, _OF_MAIN, MAIN, "./etcd"),
    Part("kube-apiserver", KUBERNETES, _UNDER_TEST, KUBERNETES, "k8s.io/kubernetes/cmd/kube-apiserver"),
    Part(
        "kube-scheduler",
        KUBERNETES,
        _UNDER_TEST,
        KUBERNETES,
        "k8s.io/kubernetes/cmd/kube-scheduler",
        # The tests of older servers compare with nothing.
        needed=_numbers(KUBERNETES) >= _numbers(MAIN),
    ),
    Part("kwok", KWOK, "kwok", MAIN, "sigs.k8s.io/kwok/cmd/kwok"),
    Part(
        "kube-controller-manager",
        KUBERNETES,
        _UNDER_TEST,
        KUBERNETES,
        "k8s.io/kubernetes/cmd/kube-controller-manager",
        # The tests of another version than the main one use only what decides and what it decides about.
        needed=KUBERNETES == MAIN,
    ),
    Part("operator", CONTROLLER_RUNTIME, "operator", MAIN, ".", needed=False),
    Part("helm", HELM, "helm", MAIN, "helm.sh/helm/v3/cmd/helm", needed=False),
    # For `bench.session_shadow`.
    Part("vc-scheduler", VOLCANO, "volcano", MAIN, "volcano.sh/volcano/cmd/scheduler", needed=False, on_request=True),
)


def cache_folder(version: str = KUBERNETES) -> Path:
    """Where the built programs lie: outside the checkout, and one folder for each version of Kubernetes."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "mooring" / "controlplane" / version


def binary(name: str) -> Path:
    """Where a program lies once it is built."""
    return cache_folder(next(part.folder for part in PARTS if part.name == name)) / name
