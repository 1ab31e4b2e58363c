package redfence

import (
	"context"
	"strconv"
	"testing"

	"github.com/redfence/redfence/observe"
)

// The benchmarks measure the engine alone: an in-process ledger, no Redis.
// cmd/bench measures it on real servers, beside its peers.

func small(context.Context, *Execution) (Response, error) {
	return Response{Status: 200, Body: body300}, nil
}

var body300 = make([]byte, 300)

func benchEngine(b *testing.B) *Engine {
	engine := newMemoryEngine(b, nil)
	must(b, engine.ForceRoute(observe.Fallback))
	b.ReportAllocs()
	return engine
}

func BenchmarkDoFresh(b *testing.B) {
	engine := benchEngine(b)
	n := 0
	for b.Loop() {
		n++
		if _, err := engine.Do(b.Context(), Request{ID: strconv.Itoa(n)}, small); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDoReplay(b *testing.B) {
	engine := benchEngine(b)
	for b.Loop() {
		if _, err := engine.Do(b.Context(), Request{ID: "k"}, small); err != nil {
			b.Fatal(err)
		}
	}
}
