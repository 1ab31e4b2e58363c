-- Settings of the running transaction only (R14). A statement of its own,
-- before the one that it is for: a statement_timeout set inside a statement
-- does not bound that statement.
-- $1 text: statement_timeout; $2 text: lock_timeout
-- returns one row that nobody reads
SELECT set_config('synchronous_commit',
                  CASE current_setting('synchronous_commit')
                      WHEN 'remote_apply' THEN 'remote_apply'
                      ELSE 'on'
                  END, true),
       set_config('statement_timeout', $1, true),
       set_config('lock_timeout', $2, true),
       -- every statement of the ledger goes by primary key, on tables of any
       -- size and with statistics of any age
       set_config('enable_seqscan', 'off', true),
       set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true),
       set_config('jit', 'off', true), -- a plan that must read all of a table would be compiled first
       set_config('plan_cache_mode', 'force_generic_plan', true)
