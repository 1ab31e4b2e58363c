package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/internal/servers"
)

// smallDisk is a disk in memory for the tables of the instances, so that it
// can be filled.
type smallDisk struct {
	dir     string
	mounted bool
}

// CanFillDisk reports whether a disk can be mounted here.
func CanFillDisk() bool {
	dir, err := os.MkdirTemp("", "redfence-disk-")
	if err != nil {
		return false
	}
	d := &smallDisk{dir: dir}
	d.mounted = unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m") == nil
	return d.close() == nil && d.mounted
}

const tablespace = "small"

// newSmallDisk mounts a disk of so many megabytes and has the instances'
// tables made on it.
func newSmallDisk(ctx context.Context, p *servers.Postgres, megabytes int) (*smallDisk, error) {
	dir, err := os.MkdirTemp("", "redfence-disk-")
	if err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	d := &smallDisk{dir: dir}
	if err := d.mount(ctx, p, megabytes); err != nil {
		return nil, errors.Join(fmt.Errorf("chaos: a disk to fill: %w (leave fill-disk out with -fault)", err), d.close())
	}
	return d, nil
}

func (d *smallDisk) mount(ctx context.Context, p *servers.Postgres, megabytes int) error {
	if err := unix.Mount("tmpfs", d.dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0755", megabytes)); err != nil {
		return err
	}
	d.mounted = true
	tables := filepath.Join(d.dir, "tables")
	if err := os.Mkdir(tables, 0o700); err != nil {
		return err
	}
	uid, gid := p.User()
	if err := errors.Join(os.Chmod(d.dir, 0o755), os.Chown(tables, uid, gid)); err != nil {
		return err
	}
	for _, statement := range []string{
		"CREATE TABLESPACE " + tablespace + " LOCATION '" + tables + "'",
		"GRANT CREATE ON TABLESPACE " + tablespace + " TO " + roleName,
		"ALTER ROLE " + roleName + " SET default_tablespace = '" + tablespace + "'",
		"CREATE TABLE chaos_filler (line text) TABLESPACE " + tablespace,
	} {
		if err := p.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func (d *smallDisk) filler() string { return filepath.Join(d.dir, "filler") }

// fill takes every byte that is left.
func (d *smallDisk) fill() error {
	file, err := os.Create(d.filler())
	if err != nil {
		return err
	}
	chunk := make([]byte, 1<<20)
	for size := len(chunk); err == nil || size > 1; {
		if _, err = file.Write(chunk[:size]); err != nil {
			size /= 2 // the last bytes too
		}
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	return errors.Join(err, file.Close())
}

func (d *smallDisk) close() error {
	var failed error
	if d.mounted {
		failed = unix.Unmount(d.dir, 0)
	}
	return errors.Join(failed, os.RemoveAll(d.dir))
}

// fullLimit bounds how long a full disk may go unnoticed.
const fullLimit = 10 * time.Second

// doDisk fills the disk, until a table on it can grow no more, or frees it.
func (c *Local) doDisk(ctx context.Context, a history.Action) (string, error) {
	switch {
	case c.disk == nil:
		return "", errors.New("there is no disk of its own to fill")
	case a.Kind == history.FreeDisk:
		return "filler removed", errors.Join(os.Remove(c.disk.filler()), c.stores.Postgres.Exec(ctx, "TRUNCATE chaos_filler"))
	}
	if err := c.disk.fill(); err != nil {
		return "", err
	}
	const grow = "INSERT INTO chaos_filler SELECT repeat('x', 1000) FROM generate_series(1, 100)"
	for end := time.Now().Add(fullLimit); time.Now().Before(end) && ctx.Err() == nil; {
		err := c.stores.Postgres.Exec(ctx, grow)
		if err != nil && strings.Contains(err.Error(), "53100") {
			return err.Error(), nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("tables still grow: %w", history.ErrMissed)
}
