"""Extenders: webhooks that take part in scheduling decisions, as in kube-scheduler.

The package builds requests and interprets replies. It does no I/O: an attempt yields requests and is sent the replies.
"""

from mooring.scheduler.extenders.extender import Extender, Extenders, run_steps
from mooring.scheduler.extenders.replies import ExtenderError
from mooring.scheduler.extenders.request import Reply, Request, Send, Steps

__all__ = ["Extender", "ExtenderError", "Extenders", "Reply", "Request", "Send", "Steps", "run_steps"]
