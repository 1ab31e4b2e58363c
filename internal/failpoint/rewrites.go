//go:build chaos

package failpoint

import "strings"

// A rewrite breaks a rule that lives in the text of a statement or script.
type rewrite struct {
	mutant string
	place  string
	// old is replaced by new wherever it stands in the text; it must stand
	// there.
	old, new string
}

// rewrites are the mutants of SQL and Lua. Those that live in Go as well, or
// only there, have a hook at their place.
var rewrites = []rewrite{
	{"takeover-under-hold", "sql/takeover", "k.takeover = 'retry' AND ", ""},
	{"finders-policy", "sql/takeover", "k.takeover = 'retry' AND ", ""},
	{"completion-without-fence", "sql/complete", "k.token = q.token AND k.fence = q.fence\n      AND ", ""},
	{"fence-drawn-early", "sql/claim", "'processing', fence = nextval('{schema}.idempotency_fence')", "'processing', fence = excluded.fence"},
	{"asynchronous-commit", "sql/settings", "ELSE 'on'", "ELSE 'off'"},
	{"sweeper-deletes-processing", "sql/sweep", "WHEN k.state = 'released' THEN k.released_at",
		"WHEN k.state = 'released' THEN k.released_at WHEN k.state = 'processing' THEN k.lease_until - $3::int8 * interval '1 microsecond'"},
	{"release-by-delete", "sql/release", releaseUpdate, "DELETE FROM {schema}.idempotency_keys AS k USING mine\n"},
	{"resolve-keeps-fence", "sql/decide", "fence = nextval('{schema}.idempotency_fence'), ", ""},
	{"expiry-from-claim", "sql/complete", "{expiry}",
		"CASE WHEN k.retention_us IS NOT NULL THEN greatest(k.claimed_at + k.retention_us * interval '1 microsecond', {over}) END"},

	{"unlock-without-compare", "lua/release", "string.sub(held, 1, 32) ~= ARGV[1]", "false"},
	{"cleanup-without-try", "lua/release", "string.sub(held, 1, 32) ~= ARGV[1]", "ARGV[1] ~= '' and string.sub(held, 1, 32) ~= ARGV[1]"},
	{"acquire-not-idempotent", "lua/acquire", "string.sub(holder, 1, 32) == string.sub(ARGV[1], 1, 32)", "false"},
	{"acquire-not-idempotent", "lua/acquire_guarded", "string.sub(holder, 1, 32) ~= string.sub(ARGV[1], 1, 32)", "true"},
	{"extend-re-creates", "lua/extend", "  return 0\n", "  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])\n  return 1\n"},
	{"restart-guard-off", "lua/acquire_guarded", "call('GET', KEYS[2]) ~= ARGV[3]", "false"},
	{"restart-guard-off", "lua/count", "call('GET', KEYS[1]) ~= ARGV[1]", "false"},
}

const releaseUpdate = `UPDATE {schema}.idempotency_keys AS k SET
    state = 'released', released_at = clock_timestamp(), reason = mine.reason,
    attempts = CASE WHEN mine.started THEN 0 ELSE k.attempts - 1 END
FROM mine
`

// Text returns the text of a statement or script, with the rule broken that
// REDFENCE_MUTANT names, if it lives there. place is its folder and name. A
// mutant that no longer finds what it breaks ends the process.
func Text(place, text string) string {
	for _, r := range rewrites {
		if r.place != place || !Mutant(r.mutant) {
			continue
		}
		if !strings.Contains(text, r.old) {
			panic("failpoint: mutant " + r.mutant + " finds nothing to break in " + place)
		}
		text = strings.ReplaceAll(text, r.old, r.new)
	}
	return text
}
