"""The systems that are measured: each a module that declares one no-op job and how it is run and fed.

Peers run as their own documentation advises: durable messages, acks after the job, one process with
eight threads (or the concurrency of an event loop), no results stored.
"""
