package main

// R3, R4, R8, R15: the completion.

// durable: a response is answered as durable.
func (m *Model) durable(w *World, response int8) (broken Promise) {
	switch {
	case !w.Committed.has(response):
		return CommittedOne
	case w.Durable != 0 && w.Durable != response:
		return OneAnswer
	case w.Erased.has(response):
		return Forgets
	}
	if !w.Expired.has(response) {
		w.Durable = response
	}
	return ""
}

// complete: compare-and-set from processing or unknown. ok: the row is
// completed under this claim now; first: by this statement.
func (m *Model) complete(w *World, p *Proc) (ok, first bool) {
	may := w.Row.State == Processing || w.Row.State == Unknown && !m.without(OwnerEndsUnknown)
	if m.without(ExpiryFromEnd) && w.Expired.has(w.Row.Fence) {
		may = false
	}
	if may && m.mine(w, p) {
		w.Row.State, w.Row.Response, w.Row.Lapsed = Completed, p.Fence, false
		w.Committed.add(p.Fence)
		return true, true
	}
	return w.Row.State == Completed && m.mine(w, p) && !m.without(OwnSuccess), false
}

// followers: a duplicate that joined gets the leader's response.
func followers(w *World, p *Proc, response int8) Promise {
	if p.Follower != 0 && p.Follower != response && !w.Expired.has(p.Follower) && w.Durable == p.Follower {
		return FairFollower
	}
	return ""
}

func (m *Model) completes(w World, i int, out *steps) {
	p := w.Procs[i]
	if m.Tx || p.Phase != Returned && p.Phase != Detached {
		return
	}
	if !p.Cut {
		m.sends(w, i, out)
	}
	if p.Phase == Returned && p.Cut { // R4
		next := w
		next.Procs[i].Phase = Detached
		if m.without(PutAfterCommit) {
			next.Procs[i].Put = p.Fence
		}
		out.add(next, followers(&next, &p, p.Fence), "answers response %d as not durable, the completer goes on", p.Fence)
	}
	if p.Phase == Returned && m.without(CompletionFirst) {
		next := w
		broken := m.durable(&next, p.Fence)
		out.add(next, broken, "answers response %d before its completion", p.Fence)
	}
}

// sends: the completion reaches the ledger.
func (m *Model) sends(w World, i int, out *steps) {
	p := w.Procs[i]
	before := w
	ok, _ := m.complete(&w, &p)
	if !ok {
		m.refused(before, i, out)
		return
	}
	if w.Used.Losses < m.Max.Losses {
		next := w
		next.Used.Losses++
		out.add(next, "", "completes fence %d, the answer is lost", p.Fence)
	}
	response := w.Row.Response // R8: the row's response is the one to reply with
	if m.without(DecisionDrawsFence) {
		response = p.Fence
	}
	var broken Promise
	if p.Phase == Returned {
		if broken = m.durable(&w, response); broken == "" {
			broken = followers(&w, &p, response)
		}
	}
	q := &w.Procs[i]
	q.Put = response
	if m.Near {
		q.Near = response
	}
	q.done()
	out.add(w, broken, "completes, response %d is durable", response)
}

// refused: the claim is lost. The answer is not durable, and there is no retry.
func (m *Model) refused(w World, i int, out *steps) {
	p := w.Procs[i]
	broken := followers(&w, &p, p.Fence)
	ownSuccess := w.Row.State == Completed && w.Row.Token == p.Token && w.Row.Fence == p.Fence
	if waiting(&w, &p) || ownSuccess {
		broken = NotStuck
	}
	w.Procs[i].done()
	out.add(w, broken, "has its completion refused (fence %d)", p.Fence)
}

// commits: R15, the completion is the last statement of the handler's own
// transaction.
func (m *Model) commits(w World, i int, out *steps) {
	p := w.Procs[i]
	if !m.Tx {
		return
	}
	switch p.Phase {
	case Returned:
		if p.Cut {
			return
		}
		m.commit(w, i, out)
		if w.Used.Losses < m.Max.Losses && w.Late == (Flight{}) {
			w.Used.Losses++
			w.Procs[i].Phase, w.Late = TxLost, Flight{p.Fence, p.Token}
			out.add(w, "", "sends COMMIT of fence %d, the answer is lost", p.Fence)
		}
	case TxLost:
		m.resolves(w, i, out)
	}
}

func (m *Model) commit(w World, i int, out *steps) {
	p := w.Procs[i]
	before := w
	ok, first := m.complete(&w, &p)
	if first || ok && m.without(TxNeedsItsRow) {
		w.Effects++
		broken := m.durable(&w, p.Fence)
		if w.Effects > 1 {
			broken = TxOnce
		}
		w.Procs[i].Put = p.Fence
		w.Procs[i].done()
		out.add(w, broken, "has its COMMIT confirmed (fence %d)", p.Fence)
		return
	}
	w = before
	var broken Promise
	if ok { // the recorded response is the answer
		broken = m.durable(&w, p.Fence)
	}
	w.Procs[i].done()
	out.add(w, broken, "completes no row and rolls back (fence %d)", p.Fence)
}

// resolves: a lost COMMIT is resolved by reading the row, by running the
// function again, or not at all.
func (m *Model) resolves(w World, i int, out *steps) {
	p := w.Procs[i]
	if !p.Cut && w.Row.State == Completed && w.Row.Token == p.Token {
		next := w
		broken := m.durable(&next, p.Fence)
		next.Procs[i].Put = p.Fence
		next.Procs[i].done()
		out.add(next, broken, "reads the row: fence %d is committed", p.Fence)
	} else if !p.Cut {
		next := w
		next.Procs[i].Phase = Returned
		out.add(next, "", "runs the function of fence %d again", p.Fence)
	}
	next := w
	next.Procs[i].done()
	out.add(next, "", "answers ErrUnknownOutcome (fence %d)", p.Fence)
	if m.without(NoR4ForTx) {
		var broken Promise
		if !w.Committed.has(p.Fence) {
			broken = TxOnce
		}
		w.Procs[i].Phase = Detached
		out.add(w, broken, "answers response %d without the commit", p.Fence)
	}
}

// lands: a completion or COMMIT whose sender is gone lands, or dies.
func (m *Model) lands(w World, out *steps) {
	if w.Late == (Flight{}) {
		return
	}
	sender := Proc{Fence: w.Late.Fence, Token: w.Late.Token}
	w.Late = Flight{}
	out.add(w, "", "a late completion of fence %d dies", sender.Fence)
	var broken Promise
	if ok, first := m.complete(&w, &sender); ok && first && m.Tx {
		if w.Effects++; w.Effects > 1 {
			broken = TxOnce
		}
	}
	out.add(w, broken, "a late completion of fence %d lands", sender.Fence)
}
