-- version:    1
-- min_binary: 1
-- what:       the ledger: one row per key, the fence sequence, one meta row,
--             the audit trail of operators' and hooks' decisions
-- {schema} is replaced by the quoted schema name.

-- One sequence for every key. Cache 1, increment 1 and no cycle: fences must
-- grow in the order in which they are drawn, across sessions.
CREATE SEQUENCE {schema}.idempotency_fence AS bigint
    INCREMENT 1 START 1 CACHE 1 NO CYCLE;

-- scope and id are bytea: the database must not fold, trim, normalise or
-- refuse what the edge accepted. No CHECK on state: an older binary treats a
-- state that it does not know as in doubt. No index besides the primary key:
-- claims, renewals and completions then stay heap-only updates in their page.
CREATE TABLE {schema}.idempotency_keys (
    digest            bytea       NOT NULL,
    namespace         text        NOT NULL,
    scope             bytea       NOT NULL,
    id                bytea       NOT NULL,
    state             text        NOT NULL,
    fence             bigint      NOT NULL,
    token             bytea       NOT NULL,
    owner             text        NOT NULL,
    fp_version        smallint    NOT NULL,
    fp_secret         smallint    NOT NULL,
    fp_sum            bytea       NOT NULL,
    takeover          text        NOT NULL,
    lease_us          bigint      NOT NULL,
    max_processing_us bigint      NOT NULL,
    max_attempts      integer     NOT NULL,
    retention_us      bigint,                -- null: for ever
    after_expiry      text        NOT NULL,
    attempts          integer     NOT NULL,
    claimed_at        timestamptz NOT NULL,
    lease_until       timestamptz NOT NULL,
    recover_until     timestamptz,
    completed_at      timestamptz,
    released_at       timestamptz,
    expires_at        timestamptz,           -- null before a terminal state, and for ever
    status            integer     NOT NULL DEFAULT 0,
    size              bigint      NOT NULL DEFAULT 0,
    response          bytea,
    reason            text        NOT NULL DEFAULT '',
    version           smallint    NOT NULL,
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (digest)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);

-- Responses are compressed by the engine, if at all: the server must not try.
ALTER TABLE {schema}.idempotency_keys ALTER COLUMN response SET STORAGE EXTERNAL;

-- One row: what this ledger is. system_identifier and timeline tell a
-- restored or failed-over database from the one that granted the claims;
-- takeover_after keeps take-overs still until every lease granted before has
-- ended; node_set is the set of Redis nodes that the engines share.
CREATE TABLE {schema}.idempotency_meta (
    only_row          boolean     NOT NULL PRIMARY KEY DEFAULT true CHECK (only_row),
    version           integer     NOT NULL,
    min_binary        integer     NOT NULL,
    system_identifier text        NOT NULL DEFAULT '',
    timeline          text        NOT NULL DEFAULT '',
    adopted_at        timestamptz,
    takeover_after    timestamptz NOT NULL DEFAULT '-infinity',
    max_lease_us      bigint      NOT NULL DEFAULT 0,
    node_set          text        NOT NULL DEFAULT '',
    node_set_at       timestamptz
);

INSERT INTO {schema}.idempotency_meta (version, min_binary) VALUES (1, 1);

CREATE TABLE {schema}.idempotency_audit (
    seq    bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at     timestamptz NOT NULL,
    digest bytea       NOT NULL,
    fence  bigint      NOT NULL,             -- of the row before the decision
    action text        NOT NULL,
    who    text        NOT NULL,
    why    text        NOT NULL
);

CREATE INDEX idempotency_audit_digest ON {schema}.idempotency_audit (digest, seq);
