package main

// The handler: R13, its start, and how it ends without a completion.

func (m *Model) starts(w World, i int, out *steps) {
	p := w.Procs[i]
	switch p.Phase {
	case Claimed:
		next := w
		switch {
		case !p.Deadline:
			next.Procs[i].Phase = Cleared
			out.add(next, "", "passes R13 (fence %d)", p.Fence)
		case m.without(MarginBeforeStart):
			next.Procs[i].Phase = Belated
			out.add(next, "", "skips R13 (fence %d)", p.Fence)
		}
		m.giveUp(w, i, "does not start", out)
	case Cleared, Belated:
		next := w
		broken := m.start(&next, i)
		out.add(next, broken, "STARTS the handler, fence %d", p.Fence)
	}
	if (p.Phase == Cleared || p.Phase == Running) && m.without(ReleaseUnstarted) &&
		!p.Cut && m.mine(&w, &p) && w.Row.State == Processing {
		// † no one-way flag: the caller has gone, and that is taken for "not
		// started"; a handler that is about to start still does.
		m.release(&w, p.Fence, p.Token, true)
		if p.Phase == Running {
			w.Procs[i].done()
		}
		out.add(w, "", "releases fence %d as not started", p.Fence)
	}
}

// start judges the promises about starts.
func (m *Model) start(w *World, i int) (broken Promise) {
	p := &w.Procs[i]
	// A process that was paused between R13 and its start, past its deadline,
	// is outside what is promised; one that skipped R13 is not.
	excused := p.Phase != Belated && (p.Deadline && !p.Hold || p.Over && p.Hold)
	p.Phase = Running
	if p.Current {
		switch {
		case p.Hold && w.LastStart >= p.Fence, w.FirstHold != 0 && w.FirstHold < p.Fence:
			broken = OneStart
		case w.FirstByte && !excused:
			broken = NoHalf
		}
		if w.Starts++; broken == "" && w.Starts > maxAttempts {
			broken = FewStarts
		}
		w.LastStart = max(w.LastStart, p.Fence)
		if p.Hold && (w.FirstHold == 0 || w.FirstHold > p.Fence) {
			w.FirstHold = p.Fence
		}
	}
	if broken == "" && !excused && m.another(w, i) {
		broken = NoOverlap
	}
	return broken
}

// another: a handler that is neither late nor forced out runs elsewhere.
func (m *Model) another(w *World, i int) bool {
	for j := range m.Procs {
		q := &w.Procs[j]
		runs := q.Phase == Running || q.Phase == Flowing
		if j != i && runs && (q.Hold && !q.Over || !q.Hold && !q.Deadline) {
			return true
		}
	}
	return false
}

// runs: the handler returns, declares that nothing happened, or panics.
func (m *Model) runs(w World, i int, out *steps) {
	p := w.Procs[i]
	if p.Phase != Running {
		return
	}
	next := w
	next.Procs[i].Phase = Returned
	out.add(next, "", "has its handler return, response %d", p.Fence)
	if m.Tx {
		return
	}
	if w.Used.Undone < m.Max.Undone && !p.Cut {
		m.undone(w, i, out)
	}
	if !p.Cut && m.mine(&w, &p) && w.Row.State == Processing {
		next := w
		next.Row.State = Unknown
		if m.without(UnknownAfterEnd) {
			out.add(next, "", "says unknown while its handler runs (fence %d)", p.Fence)
		}
		next.Procs[i].done()
		out.add(next, "", "has its handler panic: fence %d becomes unknown", p.Fence)
	}
}

// undone: the handler declares that nothing happened.
func (m *Model) undone(w World, i int, out *steps) {
	p := w.Procs[i]
	w.Used.Undone++
	may := w.Row.State == Processing || w.Row.State == Unknown && !m.without(OwnerFreesUnknown)
	w.Procs[i].done()
	if m.mine(&w, &p) && may {
		m.release(&w, p.Fence, p.Token, false)
		out.add(w, "", "declares that nothing happened: fence %d released", p.Fence)
		return
	}
	var broken Promise
	if waiting(&w, &p) {
		broken = NotStuck
	}
	out.add(w, broken, "declares that nothing happened: refused (fence %d)", p.Fence)
}

// streams: R3, a response that cannot be recorded.
func (m *Model) streams(w World, i int, out *steps) {
	p := w.Procs[i]
	switch {
	case p.Phase == Running && m.Stream:
		m.opens(w, i, out)
	case p.Phase == Flowing:
		w.Procs[i].Phase = Flowed
		out.add(w, "", "ends its stream (fence %d)", p.Fence)
	case p.Phase == Flowed && !p.Cut:
		m.closes(w, i, out)
	}
}

// opens: the row becomes streaming before the first byte leaves. If that
// cannot be written, Hold streams all the same, and Retry answers 503.
func (m *Model) opens(w World, i int, out *steps) {
	p := w.Procs[i]
	q := &w.Procs[i]
	if m.without(StreamOpensFirst) {
		q.Phase, w.FirstByte = Flowing, true
		out.add(w, "", "streams without opening (fence %d)", p.Fence)
		return
	}
	if p.Cut || !m.mine(&w, &p) || !open(&w) {
		m.cannotOpen(w, i, out)
		return
	}
	w.Row.State, w.Row.Response = Streaming, p.Fence
	w.Committed.add(p.Fence)
	if w.Used.Losses < m.Max.Losses {
		next := w
		next.Used.Losses++
		m.cannotOpen(next, i, out) // it was written, and the answer is lost
	}
	q.Phase, w.FirstByte = Flowing, true
	out.add(w, "", "opens its stream, the first byte leaves (fence %d)", p.Fence)
}

func (m *Model) cannotOpen(w World, i int, out *steps) {
	p := &w.Procs[i]
	if p.Hold {
		p.Phase = Flowing
		w.FirstByte = w.FirstByte || p.Current
		out.add(w, "", "does not know its stream open, under Hold the first byte leaves (fence %d)", p.Fence)
		return
	}
	p.Phase = Flowed
	out.add(w, "", "does not know its stream open, under Retry it answers 503 (fence %d)", p.Fence)
}

// closes: the owner's end of a stream is a tombstone.
func (m *Model) closes(w World, i int, out *steps) {
	p := w.Procs[i]
	w.Procs[i].done()
	var broken Promise
	switch {
	case m.mine(&w, &p) && (open(&w) || w.Row.State == Streaming):
		w.Row.State, w.Row.Response, w.Row.Lapsed = Tombstone, p.Fence, false
		w.Committed.add(p.Fence)
	case waiting(&w, &p):
		broken = NotStuck
	}
	out.add(w, broken, "closes fence %d", p.Fence)
}
