"""resourcequota: jobs are not admitted while they would exceed a quota of their namespace."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.api.quantity import ZERO, Quantity, QuantityError, QuantityLike, parse_quantity
from mooring.api.resources import check_amounts
from mooring.api.volcano import ResourceQuota
from mooring.batch.callbacks import PERMIT, REJECT
from mooring.batch.job import JobInfo
from mooring.batch.plugin import BatchPlugin
from mooring.batch.session import InvalidObject, Session

_Amounts = dict[str, Quantity]


def _read(amounts: Mapping[str, QuantityLike]) -> _Amounts:
    return {name: parse_quantity(quantity) for name, quantity in amounts.items()}


def _sum(left: _Amounts, right: _Amounts) -> _Amounts:
    return {name: left.get(name, ZERO).plus(right.get(name, ZERO)) for name in {**left, **right}}


class NamespaceQuota(BatchPlugin):
    """Compares the minimum of jobs with ResourceQuotas."""

    name = "resourcequota"

    def on_session_open(self, session: Session) -> None:
        """Register the vote on admission."""
        self._session = session
        #: Namespace -> the resources of jobs admitted during this session.
        self._admitted: dict[str, _Amounts] = {}
        session.add_job_enqueueable(self._vote)

    def _vote(self, job: JobInfo) -> int:
        if job.group.spec.min_resources is None:
            return PERMIT
        wanted = _read(job.group.spec.min_resources)
        quotas = list(self._session.handle.lister(ResourceQuota).list(job.namespace))
        admitted = self._admitted.get(job.namespace, {})
        for quota in quotas:
            try:
                check_amounts("status.hard", quota.status.hard)
                check_amounts("status.used", quota.status.used)
            except QuantityError as error:
                self._reject_invalid(job, quota, str(error))
                return REJECT
            hard = _read(quota.status.hard)
            used = _sum(admitted, _read(quota.status.used))
            exceeded = [
                name
                for name, amount in wanted.items()
                if name in hard and used.get(name, ZERO).plus(amount).exceeds(hard[name])
            ]
            if exceeded:
                text = _message(job, quota, exceeded)
                self._session.notes.append((job, text))
                return REJECT
        if quotas:
            self._admitted[job.namespace] = _sum(admitted, wanted)
        return PERMIT

    def _reject_invalid(self, job: JobInfo, quota: ResourceQuota, problem: str) -> None:
        self._session.notes.append((job, f"resource quota {quota.name} is invalid: {problem}"))
        if all(each.item is not quota for each in self._session.invalid):
            self._session.invalid.append(InvalidObject(quota, problem))


def _message(job: JobInfo, quota: ResourceQuota, names: list[str]) -> str:
    def listed(amounts: Mapping[str, QuantityLike]) -> str:
        return "{" + ", ".join(f"{name}: {amounts[name]}" for name in sorted(names) if name in amounts) + "}"

    asked = listed(job.group.spec.min_resources or {})
    used, hard = listed(quota.status.used), listed(quota.status.hard)
    return f"resource quota insufficient, requested: {asked}, used: {used}, limited: {hard}"
