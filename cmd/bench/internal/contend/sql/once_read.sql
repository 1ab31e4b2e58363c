-- Reads the response of an id that is complete. $1 id. Returns a row or none.
SELECT response FROM bench_once WHERE id = $1 AND response IS NOT NULL
