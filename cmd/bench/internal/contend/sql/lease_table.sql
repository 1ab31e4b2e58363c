-- Table of the contender pg-lease.
CREATE TABLE IF NOT EXISTS bench_lease (
    name       text PRIMARY KEY,
    token      text NOT NULL,
    held_until timestamptz NOT NULL
)
