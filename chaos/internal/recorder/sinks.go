package recorder

import (
	"hash/fnv"

	"github.com/redfence/redfence/chaos/internal/history"
)

// sinks are what effects go to. Only the writer uses them, so what they decide
// is in the order of the log.
type sinks struct {
	fences    map[string]int64 // the newest that the fenced sink has seen, by key
	applied   map[string]bool  // keys that the deduplicating sink knows
	registers map[string]*register
}

// register is what a plain lock protects.
type register struct{ fence, value int64 }

func newSinks() sinks {
	return sinks{fences: map[string]int64{}, applied: map[string]bool{}, registers: map[string]*register{}}
}

// apply hands an effect to its sink and notes what it made of it.
func (s sinks) apply(e *history.Effect) {
	switch e.Kind {
	case history.Done:
		s.effect(e)
	case history.ReadSlot, history.WriteSlot:
		s.access(e)
	}
}

func (s sinks) effect(e *history.Effect) {
	switch e.Sink {
	case history.Fenced:
		e.Refused = e.Fence < s.fences[e.Key]
		s.fences[e.Key] = max(s.fences[e.Key], e.Fence)
	case history.Deduplicating:
		e.Refused = s.applied[e.Key]
		s.applied[e.Key] = true
	}
}

// access reads or writes a register. Both bring a fence, and an older one than
// the register has seen is refused: a reader that was let in keeps writers
// before it out.
func (s sinks) access(e *history.Effect) {
	r := s.registers[e.Key]
	if r == nil {
		r = &register{}
		s.registers[e.Key] = r
	}
	if e.Refused = e.Fence < r.fence; !e.Refused {
		r.fence = e.Fence
		if e.Kind == history.WriteSlot {
			r.value = e.Value
		}
	}
	e.Value = r.value
}

// losesReply reports whether the reply of an effect that was applied is lost:
// for some keys of the deduplicating sink, the first time.
func losesReply(e history.Effect) bool {
	if e.Kind != history.Done || e.Sink != history.Deduplicating || e.Refused {
		return false
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(e.Key)) // never fails
	return sum.Sum32()%8 == 0
}
