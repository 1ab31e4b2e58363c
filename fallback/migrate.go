package fallback

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// SchemaVersion is the version of the schema that this binary needs. A newer
// schema serves it too, unless the schema's min_binary is above this.
const SchemaVersion = 1

// A Migration is one step of the schema. Steps expand first and contract
// later: each leaves the schema usable by every binary that knows MinBinary.
type Migration struct {
	Version   int
	MinBinary int // the least SchemaVersion of a binary that may go on using the schema
	Name      string
	SQL       string // for the schema that was asked for
}

// Migrations returns all steps, in order, for a schema ("" is "public").
func Migrations(schema string) []Migration {
	orString(&schema, "public")
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil || len(names) == 0 {
		panic("fallback: no migrations are embedded")
	}
	steps := make([]Migration, len(names)) // Glob sorts by name
	for i, name := range names {
		raw, err := migrationFiles.ReadFile(name)
		if err != nil {
			panic(err) // embedded at build time
		}
		text := string(raw)
		steps[i] = Migration{
			Version:   header(text, "version"),
			MinBinary: header(text, "min_binary"),
			Name:      strings.TrimSuffix(strings.TrimPrefix(name, "migrations/"), ".sql"),
			SQL:       strings.ReplaceAll(text, "{schema}", pgx.Identifier{schema}.Sanitize()),
		}
	}
	return steps
}

// header reads a number from the comment lines that a migration begins with.
func header(text, name string) int {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "-- "+name+":"); ok {
			if n, err := strconv.Atoi(strings.TrimSpace(rest)); err == nil {
				return n
			}
		}
	}
	panic("fallback: a migration lacks the header " + name)
}

// PrintMigrations writes the SQL of every step, for those who apply it with
// their own tools. Run what it prints in one transaction.
func PrintMigrations(w io.Writer, schema string) error {
	orString(&schema, "public")
	if _, err := fmt.Fprintf(w, "%s;\n\n", createSchema(schema)); err != nil {
		return err
	}
	for _, m := range Migrations(schema) {
		_, err := fmt.Fprintf(w, "-- migration: %s\n%s\n%s;\n\n", m.Name, m.SQL, setVersion(schema, m))
		if err != nil {
			return err
		}
	}
	return nil
}

func createSchema(schema string) string {
	return "CREATE SCHEMA IF NOT EXISTS " + pgx.Identifier{schema}.Sanitize()
}

// Migrate brings a schema ("" is "public") to this binary's version: all steps
// that are missing, in one transaction, under an advisory lock, so that any
// number of instances may call it at the same time. A newer schema is left as
// it is.
func Migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	orString(&schema, "public")
	err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite},
		func(tx pgx.Tx) error { return migrateIn(ctx, tx, schema) })
	if err != nil {
		return fmt.Errorf("%w: migrate schema %q: %w", ErrUnavailable, schema, err)
	}
	return nil
}

func migrateIn(ctx context.Context, tx pgx.Tx, schema string) error {
	lock := load("adopt_lock", schema, "")
	if _, err := tx.Exec(ctx, lock.text, advisoryKey(schema, "migrate")); err != nil {
		return err
	}
	at, err := schemaVersion(ctx, tx, schema)
	if err != nil {
		return err
	}
	if at == 0 && schema != "public" {
		if _, err := tx.Exec(ctx, createSchema(schema)); err != nil {
			return err
		}
	}
	for _, m := range Migrations(schema) {
		if m.Version <= at {
			continue
		}
		if err := runScript(ctx, tx, m.SQL); err != nil {
			return fmt.Errorf("step %s: %w", m.Name, err)
		}
		if _, err := tx.Exec(ctx, setVersion(schema, m)); err != nil {
			return fmt.Errorf("step %s: %w", m.Name, err)
		}
	}
	return nil
}

// runScript runs several statements that take no parameters.
func runScript(ctx context.Context, tx pgx.Tx, script string) error {
	_, err := tx.Conn().PgConn().Exec(ctx, script).ReadAll()
	return err
}

// setVersion returns the statement that notes that a step was taken.
func setVersion(schema string, m Migration) string {
	return fmt.Sprintf("UPDATE %s.idempotency_meta SET version = %d, min_binary = greatest(min_binary, %d)",
		pgx.Identifier{schema}.Sanitize(), m.Version, m.MinBinary)
}

// schemaVersion returns the version that the schema has, 0 when it holds no
// ledger.
func schemaVersion(ctx context.Context, tx pgx.Tx, schema string) (version int, err error) {
	quoted := pgx.Identifier{schema}.Sanitize()
	var there bool
	if err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", quoted+".idempotency_meta").Scan(&there); err != nil {
		return 0, err
	}
	if !there {
		return 0, nil
	}
	err = tx.QueryRow(ctx, "SELECT version FROM "+quoted+".idempotency_meta").Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		err = errNoMeta
	}
	return version, err
}

// PrintGrants writes the GRANT statements for the least privileged role that a
// ledger can work with. The role that migrates owns the tables.
func PrintGrants(w io.Writer, schema, role string) error {
	orString(&schema, "public")
	text := strings.ReplaceAll(load("grants", schema, "").text, "{role}", pgx.Identifier{role}.Sanitize())
	_, err := fmt.Fprintln(w, text)
	return err
}
