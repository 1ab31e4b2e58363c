package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of /proc/<pid>/stat: 100 Hz on every Linux.
const clockTick = 10 * time.Millisecond

// treeCPU returns the processor time of a process, of its children and of
// those children that have ended. 0 where the system does not tell.
func treeCPU(pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	total := statCPU(pid, true)
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				total += statCPU(child, false)
			}
		}
	}
	return total
}

// statCPU returns the user and system time of one process, with that of the
// children it has waited for if asked.
func statCPU(pid int, waited bool) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in brackets, may hold anything; the fields after it are numbers.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	const user, childrenEnd = 11, 15
	end := user + 2
	if waited {
		end = childrenEnd
	}
	var ticks int64
	for _, field := range fields[min(user, len(fields)):min(end, len(fields))] {
		n, _ := strconv.ParseInt(field, 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * clockTick
}
