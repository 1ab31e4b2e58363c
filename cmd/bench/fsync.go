package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redfence/redfence/cmd/bench/internal/measure"
)

// fsyncTime returns the median time of a synced write of one page in the
// folder for temporary files, where our own Postgres keeps its data.
func fsyncTime() (microseconds float64, err error) {
	file, err := os.CreateTemp("", "redfence-bench-fsync-")
	if err != nil {
		return 0, fmt.Errorf("measure fsync: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	const writes, page = 50, 8192
	times := make([]float64, writes)
	for i := range times {
		start := time.Now()
		if _, err := file.WriteAt(make([]byte, page), 0); err != nil {
			return 0, fmt.Errorf("measure fsync: %w", err)
		}
		if err := file.Sync(); err != nil {
			return 0, fmt.Errorf("measure fsync: %w", err)
		}
		times[i] = float64(time.Since(start)) / float64(time.Microsecond)
	}
	return measure.SpreadOf(times).Median, nil
}
