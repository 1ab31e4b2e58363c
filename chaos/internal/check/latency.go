package check

import (
	"slices"
	"time"
)

// Latency sums up durations.
type Latency struct {
	Count int           `json:"count"`
	P50   time.Duration `json:"p50"`
	P99   time.Duration `json:"p99"`
	Max   time.Duration `json:"max"`
}

// latencyOf takes percentiles by the nearest rank.
func latencyOf(all []time.Duration) Latency {
	if len(all) == 0 {
		return Latency{}
	}
	slices.Sort(all)
	rank := func(percent int) time.Duration { return all[(len(all)*percent+99)/100-1] }
	return Latency{Count: len(all), P50: rank(50), P99: rank(99), Max: all[len(all)-1]}
}
