-- Bounds how long a handler's transaction may sit idle with its locks.
-- $1 text idle_in_transaction_session_timeout
SELECT set_config('idle_in_transaction_session_timeout', $1, true)
