-- Records the response of an id. $1 id, $2 response.
UPDATE bench_once SET response = $2 WHERE id = $1
