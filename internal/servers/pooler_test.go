package servers

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestPoolerLeadsToItsServer: what goes through the pooler meets that server;
// nobody gets in without the password; nothing is left after Close.
func TestPoolerLeadsToItsServer(t *testing.T) {
	p := newPostgres(t)
	pooler, err := StartPooler(t.Context(), p.URL())
	if errors.Is(err, ErrNotInstalled) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, pooler.Close()) })
	cfg, err := pgx.ParseConfig(pooler.URL())
	must(t, err)
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	must(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var dir string
	must(t, conn.QueryRow(t.Context(), "SHOW data_directory").Scan(&dir))
	if dir != p.data() {
		t.Errorf("the pooler leads to %s, not to %s", dir, p.data())
	}
	cfg.Password = "wrong"
	if c, err := pgx.ConnectConfig(t.Context(), cfg); err == nil {
		t.Error("the pooler takes any password", c.Close(t.Context()))
	}
	must(t, errors.Join(pooler.Close(), pooler.Close()))
	if _, err := os.Stat(pooler.folder.path); !errors.Is(err, os.ErrNotExist) || !pooler.proc.exited() {
		t.Errorf("left after Close: folder %v, process ended %v", err, pooler.proc.exited())
	}
}
