"""Validation of flows (flow.volcano.sh)."""

from typing import Final

from mooring.api.volcano_jobs import JobFlow
from mooring.apiserver.volcano_admission.jobs import is_acyclic

_NOT_ACYCLIC: Final = "jobflow Flow is not DAG"


def flow_errors(flow: JobFlow) -> list[str]:
    """Return the errors of a new or changed flow."""
    needed = {
        each.name: tuple((each.depends_on.targets if each.depends_on is not None else None) or ())
        for each in flow.spec.flows
    }
    for targets in needed.values():
        for target in targets:
            if target not in needed:
                return [f"{_NOT_ACYCLIC}: vertex is not defined: {target}"]
    return [] if is_acyclic(needed) else [_NOT_ACYCLIC]
