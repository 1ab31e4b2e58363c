-- Planner settings of the running transaction only, before a read: the ledger
-- goes by primary key, on a table of any size and with statistics of any age.
-- A plan made while the table was one page would read all of it later.
-- returns one row that nobody reads
SELECT set_config('enable_seqscan', 'off', true),
       set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true),
       set_config('jit', 'off', true), -- a plan that must read all of a table would be compiled first
       set_config('plan_cache_mode', 'force_generic_plan', true)
