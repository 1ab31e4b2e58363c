package servers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const folderPrefix = "redfence-server-"

// folder is the temporary home of one server. A lock on a file in it tells
// other processes that its owner lives; the kernel drops it with the process.
type folder struct {
	path string
	lock *os.File
}

// newFolder makes a folder that every user can enter and only its owner can
// list, and removes those that dead processes left behind.
func newFolder(kind string) (*folder, error) {
	base := tempBase()
	sweep(base)
	path, err := os.MkdirTemp(base, folderPrefix+kind+"-")
	if err != nil {
		return nil, fmt.Errorf("servers: make a temporary folder: %w", err)
	}
	lock, err := lockFile(filepath.Join(path, "owner"))
	if err == nil {
		err = os.Chmod(path, 0o711)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("servers: prepare %s: %w", path, err), os.RemoveAll(path))
	}
	return &folder{path: path, lock: lock}, nil
}

func (f *folder) join(name string) string { return filepath.Join(f.path, name) }

func (f *folder) remove() error {
	err := os.RemoveAll(f.path)
	return errors.Join(err, f.lock.Close())
}

// tempBase is the folder for temporary files, or /tmp when root's own is
// closed to the user that Postgres must run as.
func tempBase() string {
	base := os.TempDir()
	if os.Geteuid() != 0 {
		return base
	}
	for dir := filepath.Clean(base); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o001 == 0 {
			return "/tmp"
		}
		if dir == filepath.Dir(dir) {
			return base
		}
	}
}

// sweep removes the folders of processes that were killed. A young one may
// not be locked yet.
func sweep(base string) {
	dirs, _ := filepath.Glob(filepath.Join(base, folderPrefix+"*"))
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		lock, err := lockFile(filepath.Join(dir, "owner"))
		if err != nil {
			continue
		}
		releaseSharedMemory(filepath.Join(dir, "data"))
		_ = os.RemoveAll(dir)
		_ = lock.Close()
	}
}

func lockFile(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// pidFile returns the lines of Postgres' postmaster.pid, nil when there is
// none.
func pidFile(data string) []string {
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return nil
	}
	return strings.Split(string(text), "\n")
}
