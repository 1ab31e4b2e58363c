package servers

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseSharedMemory removes the System V segment that a killed postmaster
// has left in the kernel. Its id stands in the seventh line of postmaster.pid;
// the kernel refuses to remove another user's, and keeps one that is in use
// until its last user is gone.
func releaseSharedMemory(data string) {
	lines := pidFile(data)
	const line = 6
	if len(lines) <= line {
		return
	}
	fields := strings.Fields(lines[line])
	if len(fields) != 2 {
		return
	}
	id, err := strconv.Atoi(fields[1])
	if err != nil {
		return
	}
	_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
}
