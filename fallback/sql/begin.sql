-- Opens the transaction of one batch or one single statement. Whatever the
-- role, the database or the session defaults to, it is READ COMMITTED and
-- writable.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE
