package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// initialise runs initdb in folders that belong to the server's user.
func (p *Postgres) initialise(ctx context.Context) error {
	secret := p.folder.join("password")
	if err := os.WriteFile(secret, []byte(p.password), 0o600); err != nil {
		return fmt.Errorf("servers: write the password file: %w", err)
	}
	if err := p.makeFolders(secret); err != nil {
		return err
	}
	return p.tool(ctx, "initdb", nil, "--pgdata", p.data(), "--no-locale", "--encoding", "UTF8", "--no-sync",
		"--username", "postgres", "--auth", "password", "--pwfile", secret)
}

// makeFolders makes the server's own folders and hands them to its user, and
// further files with them.
func (p *Postgres) makeFolders(files ...string) error {
	dirs := []string{p.data(), p.folder.join("socket")}
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("servers: make %s: %w", dir, err)
		}
	}
	if p.cred == nil {
		return nil
	}
	for _, path := range append(files, dirs...) {
		if err := os.Chown(path, int(p.cred.Uid), int(p.cred.Gid)); err != nil {
			return fmt.Errorf("servers: hand %s to Postgres' user: %w", path, err)
		}
	}
	return nil
}

// tool runs one of Postgres' programs to its end.
func (p *Postgres) tool(ctx context.Context, name string, env []string, args ...string) error {
	proc, err := spawn(spec{
		path: filepath.Join(p.binaries, name), args: args, env: env,
		dir: p.data(), log: p.folder.join(name + ".log"), cred: p.cred,
	})
	if err != nil {
		return err
	}
	select {
	case <-proc.done:
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("servers: %s: %w", name, ctx.Err()), proc.kill())
	}
	if proc.err != nil {
		return fmt.Errorf("servers: %s: %w: %s", name, proc.err, proc.logTail())
	}
	return nil
}
