-- What the role of a ledger needs, and no more. The tables belong to the role
-- that migrates. UPDATE on the sequence is for adopting a failed-over server.
-- {role} is the quoted role.
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.idempotency_keys TO {role};
GRANT SELECT, UPDATE ON {schema}.idempotency_meta TO {role};
GRANT SELECT, INSERT ON {schema}.idempotency_audit TO {role};
GRANT USAGE, UPDATE ON SEQUENCE {schema}.idempotency_fence TO {role};
