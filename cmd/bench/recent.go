package main

import (
	"math/rand/v2"
	"sync"
)

// recent draws how far back a duplicate looks: Zipf, so that the newest ids
// are the likeliest. It is safe for concurrent use.
type recent struct{ pool sync.Pool }

func newRecent() *recent {
	return &recent{pool: sync.Pool{New: func() any {
		return rand.NewZipf(rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())), zipfExponent, 1, zipfRange)
	}}}
}

// draw returns a number from 0 to less than below, which is at least 1. The
// first numbers are the likeliest, so that it is found after a few tries.
func (r *recent) draw(below int) int {
	zipf := r.pool.Get().(*rand.Zipf)
	defer r.pool.Put(zipf)
	for {
		if back := zipf.Uint64(); back < uint64(below) {
			return int(back)
		}
	}
}
