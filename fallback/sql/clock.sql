-- The ledger's clock, read before the rows: who waits for a claim to become
-- impossible needs it for an absent row too.
SELECT clock_timestamp()
