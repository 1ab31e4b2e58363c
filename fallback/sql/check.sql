-- What fallback.Check looks at, in the caller's own session: nothing of the
-- ledger's own settings is in force here.
-- $1 text schema name
-- returns one row: server_version_num, synchronous_commit, fsync,
-- full_page_writes, autovacuum, persistence of the table, missing privileges,
-- UPDATE on the sequence, seconds until a silent client is asked (0: a socket of
-- this machine)
SELECT current_setting('server_version_num')::int4,
       current_setting('synchronous_commit'),
       current_setting('fsync'),
       current_setting('full_page_writes'),
       current_setting('autovacuum'),
       coalesce((SELECT c.relpersistence::text
                 FROM pg_catalog.pg_class AS c
                 JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
                 WHERE n.nspname = $1 AND c.relname = 'idempotency_keys'), ''),
       (SELECT coalesce(string_agg(privilege || ' on ' || name, ', '), '')
        FROM (VALUES ('SELECT', 'idempotency_keys'), ('INSERT', 'idempotency_keys'),
                     ('UPDATE', 'idempotency_keys'), ('DELETE', 'idempotency_keys'),
                     ('SELECT', 'idempotency_meta'), ('UPDATE', 'idempotency_meta'),
                     ('SELECT', 'idempotency_audit'), ('INSERT', 'idempotency_audit'))
             AS needed(privilege, name)
        WHERE NOT has_table_privilege(format('%I.%I', $1::text, name), privilege)),
       has_sequence_privilege(format('%I.%I', $1::text, 'idempotency_fence'), 'UPDATE'),
       CASE WHEN inet_client_addr() IS NULL THEN 0
            ELSE (SELECT s.setting::int4 FROM pg_catalog.pg_settings AS s WHERE s.name = 'tcp_keepalives_idle')
       END
