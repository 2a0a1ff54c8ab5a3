"""The limit of ``once``: the same two inserts and commit from eight threads of one process, without a broker.

Run it with ``python -m benchmarks.peers.bare_psycopg JOBS``.
"""

from __future__ import annotations

import os
import sys
import threading

import psycopg

from benchmarks import proof
from benchmarks.systems import THREADS

TABLES = """
CREATE SCHEMA bench;
CREATE TABLE bench.keys (
    actor text COLLATE "C", key text COLLATE "C", job_id text NOT NULL, result json,
    created_at timestamptz NOT NULL DEFAULT now(), expires_at timestamptz NOT NULL, PRIMARY KEY (actor, key)
);
CREATE INDEX ON bench.keys (expires_at);
CREATE TABLE bench.effects (job bigint NOT NULL);
"""
"""What each system of this bench writes; ``keys`` has the shape and indexes of Smena's own."""

INSERT_KEY = """
INSERT INTO bench.keys (actor, key, job_id, expires_at) VALUES ('record', %s, %s, now() + interval '30 days')
ON CONFLICT DO NOTHING
"""
INSERT_EFFECT = "INSERT INTO bench.effects (job) VALUES (%s)"


def run(jobs: int) -> None:
    """Do all jobs, each thread its share."""
    threads = [threading.Thread(target=_share, args=(range(first, jobs, THREADS),)) for first in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _share(jobs: range) -> None:
    with psycopg.connect(os.environ["SMENA_DATABASE_URL"]) as connection:
        for job in jobs:
            proof.seen(job)
            if connection.execute(INSERT_KEY, (str(job), str(job))).rowcount == 1:
                connection.execute(INSERT_EFFECT, (job,))
            connection.commit()


if __name__ == "__main__":
    run(int(sys.argv[1]))
