"""The drills' own tables, in the schema `drill` of the database under test.

`jobs` is what the publisher knows: a row before a job is sent, the time of acceptance once broker or commit confirmed
it. `effects` is what jobs did; it has no key, so that nothing but the fleet's guards keeps a job from acting twice.
`starts` is written by the jobs that run without a transaction, for there is no other way to see them.
"""

from __future__ import annotations

from typing import Final

CREATE: Final = """
CREATE SCHEMA IF NOT EXISTS drill;
CREATE TABLE IF NOT EXISTS drill.jobs (
    number int PRIMARY KEY,
    job_id text NOT NULL UNIQUE,
    run text NOT NULL,
    actor text NOT NULL,
    duration_ms int NOT NULL,
    attempts int NOT NULL DEFAULT 1,     -- those that it takes by its own doing
    guilty boolean NOT NULL DEFAULT false,  -- made to end as a dead letter
    sent_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    accepted_at timestamptz
);
CREATE INDEX IF NOT EXISTS jobs_run_idx ON drill.jobs (run);
CREATE TABLE IF NOT EXISTS drill.effects (
    number int NOT NULL,
    run text NOT NULL,
    attempt int NOT NULL,
    process int NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX IF NOT EXISTS effects_run_idx ON drill.effects (run, number);
CREATE TABLE IF NOT EXISTS drill.starts (
    number int NOT NULL,
    run text NOT NULL,
    attempt int NOT NULL,
    process int NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE IF NOT EXISTS drill.ticks (schedule text NOT NULL, at timestamptz NOT NULL, job_id text PRIMARY KEY);
CREATE INDEX IF NOT EXISTS starts_run_idx ON drill.starts (run, number);
"""
"""Safe to run again."""
