package main

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"strings"
	"unsafe"
)

// A Result is what exploring a model found.
type Result struct {
	Worlds   int
	Complete bool // every world was explored
	Broken   Promise
	Trace    []string // how the promise is broken, shortest first found
}

// An explorer goes through the worlds of a model, breadth first. It keeps a
// hash of 128 bits for each, and from where it was reached.
type explorer struct {
	model *Model
	seeds [2]maphash.Seed
	seen  map[[2]uint64]struct{}
	hash  [][2]uint64
	from  []int32
}

// Explore goes through every world, up to a limit, or to the first that
// breaks a promise: the one that is looked for, or any if that is "".
func (m *Model) Explore(limit int, look Promise) Result {
	e := &explorer{
		model: m, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
		seen: make(map[[2]uint64]struct{}),
	}
	frontier := []World{e.model.canonical(World{Next: 1})}
	e.note(frontier[0], -1)
	var all []Step
	for at := int32(0); len(frontier) > 0; {
		var next []World
		for _, w := range frontier {
			all = m.next(w, all)
			for _, s := range all {
				if s.Broken != "" {
					if look == "" || s.Broken == look {
						return Result{len(e.hash), false, s.Broken, e.trace(at, s)}
					}
					continue // what follows a broken promise tells nothing
				}
				c := m.canonical(s.Next)
				if e.note(c, at) {
					next = append(next, c)
				}
			}
			at++
		}
		if len(e.hash) > limit {
			return Result{Worlds: len(e.hash)}
		}
		frontier = next
	}
	return Result{Worlds: len(e.hash), Complete: true}
}

// note remembers a world, unless it is known.
func (e *explorer) note(w World, from int32) bool {
	h := e.hashOf(w)
	if _, ok := e.seen[h]; ok {
		return false
	}
	e.seen[h] = struct{}{}
	e.hash = append(e.hash, h)
	e.from = append(e.from, from)
	return true
}

func (e *explorer) hashOf(w World) [2]uint64 {
	return [2]uint64{maphash.Comparable(e.seeds[0], w), maphash.Comparable(e.seeds[1], w)}
}

// trace goes the way to the last step again, from the beginning and with the
// numbers that the processes saw.
func (e *explorer) trace(at int32, last Step) (lines []string) {
	var path []int32
	for ; at > 0; at = e.from[at] {
		path = append(path, at)
	}
	w := World{Next: 1}
	for i := len(path) - 1; i >= 0; i-- {
		for _, s := range e.model.Next(w) {
			if s.Broken == "" && e.hashOf(e.model.canonical(s.Next)) == e.hash[path[i]] {
				lines, w = append(lines, s.String()), s.Next
				break
			}
		}
	}
	for _, s := range e.model.Next(w) { // the last one, with those numbers
		if s.Broken == last.Broken && s.What == last.What {
			last = s
			break
		}
	}
	return append(lines, last.String(), "BROKEN: "+string(last.Broken))
}

// String tells the step as a sentence.
func (s Step) String() string {
	text := s.What
	if strings.Contains(text, "%d") {
		text = fmt.Sprintf(text, s.N)
	}
	if s.Proc < 0 {
		return text
	}
	return string(rune('A'+s.Proc)) + " " + text
}

// canonical returns the one of the worlds that are the same: processes and
// cache nodes are interchangeable, numbers matter by their order only, and
// what can no longer matter is dropped.
func (m *Model) canonical(w World) World {
	m.forgetPast(&w)
	if !m.without(TokenPerAttempt) { // there, tokens name the processes
		w.renumber()
		m.sortProcs(&w)
	}
	if m.Max.Forgets == 0 && w.Cache[0].Response > w.Cache[1].Response {
		w.Cache[0], w.Cache[1] = w.Cache[1], w.Cache[0]
	}
	return w
}

// forgetPast drops responses that nobody can answer any more.
func (m *Model) forgetPast(w *World) {
	gone := func(n *int8) {
		if *n != 0 && w.Expired.has(*n) && !m.without(ReaderJudgesExpiry) {
			*n = 0
		}
	}
	alive := set(0)
	for i := range w.Procs {
		p := &w.Procs[i]
		gone(&p.Near)
		gone(&p.Put)
		alive |= 1<<uint(p.Near) | 1<<uint(p.Put) | 1<<uint(p.Follower)
		if p.Phase >= Running {
			alive.add(p.Fence)
		}
	}
	for i := range w.Cache {
		gone(&w.Cache[i].Response)
		alive.add(w.Cache[i].Response)
	}
	alive |= 1<<uint(w.Row.Response) | 1<<uint(w.Durable) | 1<<uint(w.Late.Fence)
	if m.without(ExpiryFromEnd) {
		alive.add(w.Row.Fence)
	}
	alive &^= 1
	w.Expired &= alive
	w.Committed &= alive
	w.Erasing &= alive
	w.Erased &= alive
	if w.Row.State == Absent {
		w.Row = Row{}
	}
}

// numbers lists every field that holds a number of the sequence.
func (w *World) numbers(visit func(*int8)) {
	for _, n := range []*int8{
		&w.Row.Fence, &w.Row.Token, &w.Row.Response, &w.Row.Claim,
		&w.Durable, &w.LastGrant, &w.FirstHold, &w.LastStart, &w.Late.Fence, &w.Late.Token,
	} {
		visit(n)
	}
	for i := range w.Cache {
		visit(&w.Cache[i].Response)
		visit(&w.Cache[i].Marker)
	}
	for i := range w.Procs {
		p := &w.Procs[i]
		visit(&p.Fence)
		visit(&p.Token)
		visit(&p.Follower)
		visit(&p.Claim.Fence)
		visit(&p.Claim.Token)
		visit(&p.Janitor)
		visit(&p.Near)
		visit(&p.Put)
	}
}

// renumber closes the gaps between the numbers that are in use.
func (w *World) renumber() {
	used := set(0)
	w.numbers(func(n *int8) { used.add(*n) })
	used &^= 1
	rank := func(n int8) int8 {
		return int8(bits.OnesCount32(uint32(used)&(1<<uint(n)-1))) + 1
	}
	w.numbers(func(n *int8) {
		if *n != 0 {
			*n = rank(*n)
		}
	})
	for _, s := range []*set{&w.Expired, &w.Committed, &w.Erasing, &w.Erased} {
		var next set
		for rest := uint32(*s & used); rest != 0; rest &= rest - 1 {
			next.add(rank(int8(bits.TrailingZeros32(rest))))
		}
		*s = next
	}
	w.Next = int8(bits.OnesCount32(uint32(used))) + 1
}

// sortProcs puts the processes in an order of their own.
func (m *Model) sortProcs(w *World) {
	for i := 1; i < m.Procs; i++ {
		for j := i; j > 0 && before(&w.Procs[j], &w.Procs[j-1]); j-- {
			w.Procs[j], w.Procs[j-1] = w.Procs[j-1], w.Procs[j]
		}
	}
}

const procSize = unsafe.Sizeof(Proc{})

// before compares two processes byte by byte: a Proc has no padding.
func before(a, b *Proc) bool {
	x, y := (*[procSize]byte)(unsafe.Pointer(a)), (*[procSize]byte)(unsafe.Pointer(b))
	return string(x[:]) < string(y[:])
}
