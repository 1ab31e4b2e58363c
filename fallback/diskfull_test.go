//go:build linux

package fallback_test

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
)

// smallDisk mounts a small file system that the server's user may write to.
func smallDisk(t *testing.T, bytes int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "redfence-disk-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0777", bytes)); err != nil {
		t.Skipf("mounting a small file system needs privileges that this machine does not give: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// serverOwns gives a folder to the user that the servers run as under root.
func serverOwns(t *testing.T, dir, like string) {
	t.Helper()
	info, err := os.Stat(like)
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	if _, err := user.LookupId(strconv.Itoa(int(stat.Uid))); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, int(stat.Uid), int(stat.Gid)); err != nil {
		t.Fatal(err)
	}
}

// TestDiskFull: the ledger's disk fills up. Calls are refused as an outage, no
// acknowledged response is lost, and when there is space again the ledger goes
// on without a restart of anything.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	const size = 24 << 20
	disk := smallDisk(t, size)
	server := testenv.OwnPostgres(t)
	if server.Pid() == 0 {
		t.Fatal("the test fills the server's disk: it needs a server of its own")
	}
	pool := newPool(t, server.URL())
	l := openLedger(t, pool)
	var data string
	if err := pool.QueryRow(t.Context(), "SHOW data_directory").Scan(&data); err != nil {
		t.Fatal(err)
	}
	space := filepath.Join(disk, "space")
	if err := os.Mkdir(space, 0o700); err != nil {
		t.Fatal(err)
	}
	serverOwns(t, space, data)
	exec(t, pool, "CREATE TABLESPACE small LOCATION '"+space+"'")
	exec(t, pool, "ALTER TABLE idempotency_keys SET TABLESPACE small")

	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, size/2), 0o600); err != nil {
		t.Fatal(err)
	}
	acknowledged := make(map[fallback.Digest]byte)
	var full error
	for n := byte(0); full == nil; n++ {
		r := newRequest(holdPolicy())
		v, err := l.Claim(t.Context(), r)
		if err == nil {
			_, err = l.Complete(t.Context(), fallback.Completion{
				Ref: refOf(r, v.Granted.Fence), Response: append(make([]byte, 1<<20), n),
			})
		}
		if full = err; err == nil {
			acknowledged[r.Digest] = n
		}
		if len(acknowledged) > 2*size>>20 {
			t.Fatal("the disk does not fill up")
		}
	}
	if !errors.Is(full, fallback.ErrUnavailable) {
		t.Fatalf("a full disk is told as %v", full)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	mine := mustClaim(t, l, newRequest(holdPolicy()))
	if _, err := l.Complete(t.Context(), fallback.Completion{Ref: mine, Response: make([]byte, 1<<20)}); err != nil {
		t.Fatalf("with space again: %v", err)
	}
	for d, n := range acknowledged {
		if row := mustRead(t, l, d); row.State != fallback.Completed || row.Response[1<<20] != n {
			t.Fatalf("an acknowledged response is lost: %v", row.State)
		}
	}
	exec(t, pool, "ALTER TABLE idempotency_keys SET TABLESPACE pg_default")
	exec(t, pool, "DROP TABLESPACE small")
}
