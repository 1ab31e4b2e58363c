package fallback

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/redfence/redfence/internal/failpoint"
)

//go:embed sql/*.sql
var sqlFiles embed.FS

// A statement is one file of sql/, for one schema.
type statement struct {
	name   string // of the prepared statement: the same text, the same name
	text   string
	single bool // takes the fields of one row, not an array for each field
}

// A batched statement has a second form, for one row: to open an array for each
// of its fields takes the server about as long as to change it.
type batched struct{ many, one statement }

// step returns the step that a batch of so many rows takes.
func (b *batched) step(rows int, args []any, scan func(pgx.Rows) error) step {
	if rows == 1 {
		return step{statement: &b.one, args: args, scan: scan}
	}
	return step{statement: &b.many, args: args, scan: scan}
}

// statements are all that a Postgres ledger sends.
type statements struct {
	begin, commit, rollback, settings, planner, identity, clock statement

	sequence, adopt, noteLease statement
	guard, wait, confirm       statement

	claim, readback, read                   batched
	renew, complete, release                batched // skip locked rows
	renewAlone, completeAlone, releaseAlone statement
	suspects, takeover                      statement
	abandon, lapse, stream, bury            statement
	decide, beginRecovery, forget           statement
	completeTx, idle, sweep, notify         statement
	nodeSet, setNodeSet, audits, list       statement
}

// The columns that every statement returns a row with, in the order in which
// readRecord and readGrant read them.
var (
	columns = prefixed("digest", "namespace", "scope", "id", "state", "fence", "token", "owner",
		"fp_version", "fp_secret", "fp_sum", "takeover", "lease_us", "max_processing_us",
		"max_attempts", "retention_us", "after_expiry", "attempts", "claimed_at", "lease_until",
		"recover_until", "completed_at", "released_at", "expires_at", "status", "size", "reason",
		"version")
	grantColumns = prefixed("digest", "fence", "token", "attempts", "claimed_at", "lease_until",
		"max_processing_us")
)

func prefixed(names ...string) string { return "k." + strings.Join(names, ", k.") }

const (
	overSQL   = "k.claimed_at + k.max_processing_us * interval '1 microsecond' + interval '%d microseconds'"
	expirySQL = "CASE WHEN k.retention_us IS NOT NULL THEN greatest(" +
		"clock_timestamp() + k.retention_us * interval '1 microsecond', %s) END"
	hereSQL = "EXISTS (SELECT 1 FROM %s.idempotency_meta AS here WHERE here.only_row " +
		"AND here.system_identifier = (SELECT c.system_identifier::text FROM pg_control_system() AS c) " +
		"AND here.timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8))"
)

// fragments replaces the names in braces in the SQL files.
func fragments(schema, wait string) *strings.Replacer {
	over := fmt.Sprintf(overSQL, Margin.Microseconds())
	return strings.NewReplacer(
		"{schema}", pgx.Identifier{schema}.Sanitize(),
		"{columns}", columns,
		"{record}", columns+", clock_timestamp()",
		"{grant}", grantColumns+", clock_timestamp()",
		"{over}", over,
		"{expiry}", fmt.Sprintf(expirySQL, over),
		"{version}", fmt.Sprint(RecordVersion),
		"{forgotten}", Forgotten,
		"{lapsed}", reasonLapsed,
		"{cutshort}", reasonCutShort,
		"{wait}", wait,
	)
}

// load reads sql/<name>.sql for a schema, and replaces further pairs. Comments
// are left behind: they are for readers of the file.
func load(name, schema, wait string, pairs ...string) statement {
	raw, err := sqlFiles.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err) // a file that is embedded at build time
	}
	var lines []string
	text := strings.NewReplacer(pairs...).Replace(fragments(schema, wait).Replace(failpoint.Text("sql/"+name, string(raw))))
	for line := range strings.Lines(text) {
		if code, _, _ := strings.Cut(line, "--"); strings.TrimSpace(code) != "" {
			lines = append(lines, strings.TrimRight(code, " \n"))
		}
	}
	return named(strings.Join(lines, "\n"))
}

// arrays are the parameters of a batch, one array for each field.
var arrays = regexp.MustCompile(`unnest\(((?:\$\d+::\w+\[\][,\s]*)+)\)`)

// ofOneRow returns the form of a statement that takes one row.
func ofOneRow(s statement) statement {
	one := named(arrays.ReplaceAllStringFunc(s.text, func(unnest string) string {
		return "(VALUES (" + strings.ReplaceAll(arrays.FindStringSubmatch(unnest)[1], "[]", "") + "))"
	}))
	one.single = true
	return one
}

func named(text string) statement {
	sum := sha256.Sum256([]byte(text))
	return statement{name: "redfence_" + hex.EncodeToString(sum[:8]), text: text}
}

// loadStatements reads all files. pooled: through a pooler the server behind a
// connection may change, so what grants or ends claims looks whether it is
// still the ledger's.
func loadStatements(schema string, pooled bool) *statements {
	here := "true"
	if pooled {
		here = fmt.Sprintf(hereSQL, pgx.Identifier{schema}.Sanitize())
	}
	arbiter := func(name string) statement {
		return load(name, schema, "", "{here}", here)
	}
	one := func(name string) statement { return load(name, schema, "") }
	alone := func(name string) statement { return ofOneRow(load(name, schema, "")) }
	batch := func(name string) batched {
		s := load(name, schema, "SKIP LOCKED", "{here}", here)
		return batched{many: s, one: ofOneRow(s)}
	}
	return &statements{
		begin: one("begin"), commit: named("COMMIT"), rollback: named("ROLLBACK"),
		settings: one("settings"), identity: one("identity"),
		clock: one("clock"), planner: one("planner"),
		claim: batch("claim"), readback: batch("readback"), read: batch("read"),
		takeover: arbiter("takeover"), suspects: one("suspects"),
		renew: batch("renew"), complete: batch("complete"), release: batch("release"),
		renewAlone: alone("renew"), completeAlone: alone("complete"), releaseAlone: alone("release"),
		abandon: one("abandon"), lapse: arbiter("lapse"), stream: one("stream"), bury: one("bury"),
		decide: one("decide"), beginRecovery: one("begin_recovery"), forget: one("forget"),
		completeTx: one("complete_tx"), idle: one("idle"), sweep: one("sweep"), notify: one("notify"),
		nodeSet: one("node_set"), setNodeSet: one("set_node_set"),
		audits: one("audits"), list: one("list"),
		adopt: one("adopt"), noteLease: one("note_lease"), sequence: one("sequence"),
		guard: one("guard"), wait: one("wait"), confirm: one("confirm"),
	}
}
