package measure

import (
	"runtime"
	"syscall"
	"time"
)

// Usage is what a round cost this process.
type Usage struct {
	// CPU is the processor time of this process, user and system.
	CPU time.Duration `json:"cpu_ns"`
	// Allocs counts heap objects, Bytes their size.
	Allocs uint64 `json:"allocs"`
	Bytes  uint64 `json:"bytes"`
	// GCs counts garbage collections, Paused the time they stopped the
	// process.
	GCs    uint32        `json:"gcs"`
	Paused time.Duration `json:"gc_paused_ns"`
}

func readUsage() Usage {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return Usage{
		CPU: processCPU(), Allocs: mem.Mallocs, Bytes: mem.TotalAlloc,
		GCs: mem.NumGC, Paused: time.Duration(mem.PauseTotalNs),
	}
}

// processCPU returns the processor time that this process has used.
func processCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func (u Usage) since(old Usage) Usage {
	return Usage{
		CPU: u.CPU - old.CPU, Allocs: u.Allocs - old.Allocs, Bytes: u.Bytes - old.Bytes,
		GCs: u.GCs - old.GCs, Paused: u.Paused - old.Paused,
	}
}
