"""Admission of Volcano's objects: the rules of its webhooks as pure functions.

The webhook of `mooring controller` and the embedded cluster use the same functions. They return defaults or the reasons
to refuse a request, with Volcano's messages.
"""
