"""Extenders: web hooks that take part in decisions, as kube-scheduler's.

Here is what they are asked and what their answers mean. Nothing here talks to them: an attempt that needs one hands out
questions, and goes on when it is given the replies.
"""

from mooring.scheduler.extenders.extender import Extender, Extenders
from mooring.scheduler.extenders.question import Question, Reply, Send

__all__ = ["Extender", "Extenders", "Question", "Reply", "Send"]
