package main

// R5, R11, R17 and what breaks: the passing of time, crashes and cuts. A pause
// is any delay between two steps.

// leases: the owner's own deadline, and renewal.
func (m *Model) leases(w World, i int, out *steps) {
	p := w.Procs[i]
	own := p.Phase >= Claimed && p.Phase != TxLost && m.mine(&w, &p)
	at := p.Phase >= Claimed && p.Phase <= Flowing
	if (at || own) && !p.Deadline {
		next := w
		next.Procs[i].Deadline = true
		out.add(next, "", "has its own deadline pass (fence %d)", p.Fence)
	}
	after := p.Phase == Returned || p.Phase == Detached // R4's completer
	held := w.Row.State == Processing || w.Row.State == Streaming
	if own && p.Deadline && !m.Tx && !p.Cut && (p.Hold || after) && held {
		w.Procs[i].Deadline, w.Row.Lapsed = false, false
		out.add(w, "", "renews fence %d", p.Fence)
	}
}

// breaks: a process dies, or loses or finds the ledger.
func (m *Model) breaks(w World, i int, out *steps) {
	p := w.Procs[i]
	if (p.Phase != Idle || p.Janitor != 0) && w.Used.Crashes < m.Max.Crashes {
		m.crashes(w, i, out)
	}
	if w.Used.Cuts < m.Max.Cuts {
		w.Used.Cuts++
		w.Procs[i].Cut = !p.Cut
		what := "is cut off from the ledger"
		if p.Cut {
			what = "reaches the ledger again"
		}
		out.add(w, "", what, 0)
	}
}

func (m *Model) crashes(w World, i int, out *steps) {
	p := w.Procs[i]
	w.Used.Crashes++
	w.Procs[i] = Proc{
		Cut: p.Cut, Claim: p.Claim, Aged: p.Aged, ForHold: p.ForHold, Orphan: p.Claim != (Flight{}),
	}
	var broken Promise
	owned := p.Phase >= Claimed && m.mine(&w, &p)
	if w.Row.State == Streaming && owned && m.without(LapsedStreamEnds) {
		broken = StreamEnds
	}
	out.add(w, broken, "crashes", 0)
	if (p.Phase == Returned || p.Phase == Detached) && w.Late == (Flight{}) && !p.Cut {
		next := w
		next.Late = Flight{p.Fence, p.Token}
		out.add(next, "", "crashes, its completion of fence %d is on its way", p.Fence)
	}
	if m.without(TokenPerAttempt) && p.Phase >= Cleared {
		// † the same instance comes back, claims again and loses the answer.
		w.Procs[i].Phase, w.Procs[i].Token = Lost, instance(i)
		out.add(w, "", "restarts under its instance id, claims again and loses the answer", 0)
	}
}

// finds: whoever finds a lapsed row that nobody may take over.
func (m *Model) finds(w World, i int, out *steps) {
	p := w.Procs[i]
	if p.Phase != Idle || p.Cut || !w.Row.Lapsed {
		return
	}
	switch {
	case w.Row.State == Processing && (w.Row.Hold || w.Row.Attempts >= maxAttempts):
		w.Row.State = Unknown
		out.add(w, "", "finds fence %d lapsed: unknown", w.Row.Fence)
	case w.Row.State == Streaming && !m.without(LapsedStreamEnds):
		w.Row.State, w.Row.Lapsed = Tombstone, false
		out.add(w, "", "finds the stream of fence %d lapsed: closes it", w.Row.Fence)
	}
}

// time: on the ledger's clock.
func (m *Model) time(w World, out *steps) {
	if m.mayLapse(&w) {
		next := w
		next.Row.Lapsed = true
		out.add(next, "", "the lease of fence %d lapses", w.Row.Fence)
	}
	if w.Row.State != Absent && w.Row.State != Released && !w.Row.Over {
		next := w
		next.Row.Over = true
		for j := range next.Procs {
			if q := &next.Procs[j]; q.Fence == w.Row.Claim && q.Phase >= Claimed {
				q.Over = true
			}
		}
		out.add(next, "", "max_processing of fence %d and its margin pass", w.Row.Claim)
	}
	if w.Used.Expiries < m.Max.Expiries {
		m.expires(w, out)
	}
}

// mayLapse: R5b, the owner's own deadline passes before the ledger's.
func (m *Model) mayLapse(w *World) bool {
	if w.Row.Lapsed || w.Row.State != Processing && w.Row.State != Streaming {
		return false
	}
	for j := range m.Procs {
		q := &w.Procs[j]
		owner := q.Phase >= Claimed && q.Phase != TxLost && q.Token == w.Row.Token && q.Fence == w.Row.Fence
		if owner && !q.Deadline && !q.Reread {
			return false
		}
	}
	return true
}

// expires: the retention of a response ends.
func (m *Model) expires(w World, out *steps) {
	var tried set
	try := func(response int8) {
		known := w.Committed.has(response) || m.without(ExpiryFromEnd)
		if response == 0 || tried.has(response) || w.Expired.has(response) || !known {
			return
		}
		tried.add(response)
		if response == w.Row.Response && !w.Row.Over && !m.without(NoEarlyExpiry) {
			return
		}
		next := w
		next.Used.Expiries++
		next.Expired.add(response)
		if next.Durable == response {
			next.Durable = 0
		}
		next.age()
		out.add(next, "", "the retention of response %d ends", response)
	}
	if terminal(&w) {
		try(w.Row.Response)
	}
	if m.without(ExpiryFromEnd) && w.Row.State == Processing {
		try(w.Row.Fence)
	}
	for _, n := range w.Cache {
		try(n.Response)
	}
}

// sweeps: only rows that are free, for longer than a claim statement can live.
// (A row that was released unbegun stays in the model: its history goes on.)
func (m *Model) sweeps(w World, out *steps) {
	free := w.Row.State == Released && !w.Row.Unbegun || terminal(&w) && w.Expired.has(w.Row.Response)
	if !free {
		return
	}
	for j := range m.Procs {
		if w.Procs[j].Claim != (Flight{}) && w.Procs[j].Aged && !m.without(SweepAfterGrace) {
			return
		}
	}
	w.Row = Row{}
	out.add(w, "", "the sweeper deletes the row", 0)
}

// decides: R17, the hook or the operator, by compare-and-set on the fence.
func (m *Model) decides(w World, out *steps) {
	if w.Row.State != Unknown || w.Used.Decisions >= m.Max.Decisions {
		return
	}
	w.Used.Decisions++
	old := w.Row
	fence, token := w.Next, int8(0)
	if m.without(DecisionDrawsFence) {
		fence, token = old.Fence, old.Token
	}
	done := w
	done.Row.State, done.Row.Response, done.Row.Lapsed = Completed, done.draw(), false
	done.Row.Fence, done.Row.Token = fence, token
	done.Committed.add(done.Row.Response)
	out.add(done, "", "the hook or an operator decides: completed (fence %d)", old.Fence)

	free := w
	free.Next++
	switch {
	case old.Over || m.without(DecisionWaits):
		m.release(&free, fence, token, false)
		out.add(free, "", "the hook or an operator decides: released (fence %d)", old.Fence)
	case w.Used.Forced < m.Max.Forced:
		free.Used.Forced++
		for j := range free.Procs { // who forces says that the handler is over
			if q := &free.Procs[j]; q.Fence == old.Fence && q.Phase >= Claimed {
				q.Over = true
			}
		}
		m.release(&free, fence, token, false)
		out.add(free, "", "an operator forces: released (fence %d)", old.Fence)
	}
}
