-- Table of the contenders that run work once with a statement per step.
CREATE TABLE IF NOT EXISTS bench_once (
    id       text PRIMARY KEY,
    response bytea
)
