package measure

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are kept from a microsecond to two minutes with three digits.
const (
	lowest  = int64(time.Microsecond)
	highest = int64(2 * time.Minute)
	digits  = 3
)

// shardCount is a compromise between memory and callers that meet.
const shardCount = 16

// A Sample is what one round measured.
type Sample struct {
	Callers int     `json:"callers"`
	Seconds float64 `json:"seconds"`
	// Ops is the number of operations that succeeded within Seconds; one that
	// spans an edge counts for the part within.
	Ops float64 `json:"ops"`
	// Failed operations are neither in Ops nor in the latencies.
	Failed int64 `json:"failed"`
	// FirstError is the text of the first failure.
	FirstError string `json:"first_error,omitempty"`
	// Timeline is what ended in each tenth of a second, if it was asked for.
	Timeline []Tick `json:"timeline,omitempty"`
	// Usage is the processor time and memory spent, failures included.
	Usage Usage `json:"usage"`

	hist *hdrhistogram.Histogram
}

// SampleOf makes a sample of latencies that were measured one after another.
func SampleOf(took []time.Duration) Sample {
	s := Sample{Callers: 1, Ops: float64(len(took)), hist: hdrhistogram.New(lowest, highest, digits)}
	for _, d := range took {
		s.Seconds += d.Seconds()
		_ = s.hist.RecordValue(min(max(int64(d), lowest), highest)) // within bounds: cannot fail
	}
	return s
}

// WithoutLatencies returns the sample without its histogram, which is most of
// its memory; its quantiles are 0.
func (s Sample) WithoutLatencies() Sample {
	s.hist = nil
	return s
}

// Rate returns operations per second.
func (s Sample) Rate() float64 {
	if s.Seconds == 0 {
		return 0
	}
	return s.Ops / s.Seconds
}

// Quantile returns the latency that the share q of the operations did not
// exceed; 0 when there was none.
func (s Sample) Quantile(q float64) time.Duration {
	if s.hist == nil || s.hist.TotalCount() == 0 {
		return 0
	}
	return time.Duration(s.hist.ValueAtQuantile(q * 100))
}

// Max returns the longest latency.
func (s Sample) Max() time.Duration { return s.Quantile(1) }

// TickLength is the time that a Tick covers.
const TickLength = 100 * time.Millisecond

// A Tick is what ended within a tenth of a second.
type Tick struct {
	Ops    int64 `json:"ops"`
	Failed int64 `json:"failed,omitempty"`
}

// shards spread the recording of many callers over a few histograms.
type shards [shardCount]struct {
	mu     sync.Mutex
	hist   *hdrhistogram.Histogram
	ops    float64
	failed int64
	first  string
	ticks  []Tick
	_      [64]byte // keeps two shards off one cache line
}

func newShards(ticks int) *shards {
	s := new(shards)
	for i := range s {
		s[i].ticks = make([]Tick, ticks)
		s[i].hist = hdrhistogram.New(lowest, highest, digits)
	}
	return s
}

func (s *shards) record(caller int, share float64, took time.Duration, err error) {
	shard := &s[caller%shardCount]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if err != nil {
		shard.failed++
		if shard.first == "" {
			shard.first = err.Error()
		}
		return
	}
	shard.ops += share
	_ = shard.hist.RecordValue(min(max(int64(took), lowest), highest)) // within bounds: cannot fail
}

// tick counts an operation in the tenth of a second in which it ended, if
// there is one.
func (s *shards) tick(caller int, at time.Duration, err error) {
	shard := &s[caller%shardCount]
	i := int(at / TickLength)
	if at < 0 || i >= len(shard.ticks) {
		return
	}
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if err != nil {
		shard.ticks[i].Failed++
	} else {
		shard.ticks[i].Ops++
	}
}

func (s *shards) sum() Sample {
	total := Sample{hist: hdrhistogram.New(lowest, highest, digits), Timeline: make([]Tick, len(s[0].ticks))}
	for i := range s {
		for j, tick := range s[i].ticks {
			total.Timeline[j].Ops += tick.Ops
			total.Timeline[j].Failed += tick.Failed
		}
		total.Ops += s[i].ops
		total.Failed += s[i].failed
		total.hist.Merge(s[i].hist)
		if total.FirstError == "" {
			total.FirstError = s[i].first
		}
	}
	return total
}
