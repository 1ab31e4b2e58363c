package main

// R1: the claim. One statement decides; it may land long after its sender has
// given up or died, and its answer may be lost.

// claimable states are listed positively.
func (m *Model) claimable(w *World) bool {
	switch w.Row.State {
	case Absent, Released:
		return true
	case Completed, Tombstone:
		return w.Expired.has(w.Row.Response)
	case Processing:
		return m.without(ExpiryFromEnd) && w.Expired.has(w.Row.Fence)
	}
	return false
}

// takeable: lapsed, Retry in the row, attempts left.
func (m *Model) takeable(w *World, finderHold bool) bool {
	hold := w.Row.Hold
	if m.without(RowsPolicy) {
		hold = finderHold
	}
	lapsed := w.Row.Lapsed || m.without(LedgersClock)
	return w.Row.State == Processing && lapsed && !hold && w.Row.Attempts < maxAttempts
}

// instance is a token that is not drawn for each attempt.
func instance(i int) int8 { return int8(20 + i) }

func (m *Model) token(i int, drawn int8) int8 {
	if m.without(TokenPerAttempt) {
		return instance(i)
	}
	return drawn
}

func (m *Model) claims(w World, i int, out *steps) {
	p := w.Procs[i]
	if p.Phase == Idle && !p.Cut && p.Claim == (Flight{}) && w.Used.Claims < m.Max.Claims {
		for _, hold := range m.policies() {
			if m.claimable(&w) || m.takeable(&w, hold) {
				m.send(w, i, hold, out)
			}
		}
	}
	if p.Claim != (Flight{}) {
		m.arrives(w, i, out)
	}
	if p.Phase == Lost {
		m.rereads(w, i, out)
	}
}

func (m *Model) policies() (hold []bool) {
	if m.Hold {
		hold = append(hold, true)
	}
	if m.Retry {
		hold = append(hold, false)
	}
	return hold
}

// send: the number for the insert branch is drawn before the conflict is seen.
func (m *Model) send(w World, i int, hold bool, out *steps) {
	w.Used.Claims++
	drawn := w.draw()
	p := &w.Procs[i]
	p.Phase, p.Token = Sent, m.token(i, drawn)
	p.Claim, p.ForHold = Flight{Fence: drawn, Token: p.Token}, hold
	what := "sends a claim under Retry, token %d"
	if hold {
		what = "sends a claim under Hold, token %d"
	}
	out.add(w, "", what, drawn)
}

// arrives: the claim lands, its answer arrives or is lost, or it dies.
func (m *Model) arrives(w World, i int, out *steps) {
	p := w.Procs[i]
	awaited := p.Phase == Sent && p.Token == p.Claim.Token
	next := w
	granted, broken := m.land(&next, i)
	switch {
	case !awaited && granted:
		out.add(next, broken, "has a late claim land: fence %d", next.Row.Fence)
	case !awaited:
		out.add(next, broken, "has a late claim land and lose the race", 0)
	default:
		if !p.Cut {
			m.answered(next, i, granted, broken, out)
			m.rowsBeforeCommit(w, i, out)
		}
		if p.Cut || w.Used.Losses < m.Max.Losses {
			if !p.Cut {
				next.Used.Losses++
			}
			next.Procs[i].Phase = Lost
			out.add(next, broken, "has its claim land (row fence %d), the answer is lost", next.Row.Fence)
		}
	}
	dead := w
	d := &dead.Procs[i]
	d.Claim, d.Aged, d.ForHold, d.Orphan = Flight{}, false, false, false
	if awaited {
		d.Phase = Lost
	}
	out.add(dead, "", "has its claim die on the way", 0)
	if awaited && w.Used.Losses < m.Max.Losses {
		w.Used.Losses++
		w.Procs[i].Phase = Lost
		out.add(w, "", "loses the connection, the claim is still on its way", 0)
	}
}

func (m *Model) answered(w World, i int, granted bool, broken Promise, out *steps) {
	if !granted {
		w.Procs[i].done()
		out.add(w, broken, "loses the race", 0)
		return
	}
	m.learn(&w, i, false)
	out.add(w, broken, "has its claim confirmed: fence %d", w.Row.Fence)
}

// rowsBeforeCommit: † rows are taken for a verdict, and the commit fails.
func (m *Model) rowsBeforeCommit(w World, i int, out *steps) {
	if !m.without(VerdictByCommit) {
		return
	}
	row := w.Row
	if granted, _ := m.land(&w, i); granted {
		m.learn(&w, i, false)
		w.Row = row
		out.add(w, "", "sees the rows of fence %d, and the commit fails", w.Procs[i].Fence)
	}
}

// land executes the claim statement of process i.
func (m *Model) land(w *World, i int) (granted bool, broken Promise) {
	p := &w.Procs[i]
	claim, hold, orphan := p.Claim, p.ForHold, p.Orphan
	heeded := !orphan && ((p.Phase == Sent || p.Phase == Lost) && p.Token == claim.Token || p.Janitor == claim.Token)
	p.Claim, p.Aged, p.ForHold, p.Orphan = Flight{}, false, false, false
	switch {
	case w.Row.State == Absent: // the insert branch
		broken = m.grant(w, claim.Fence, claim.Token, hold, true)
	case m.claimable(w): // the conflict branch
		anew := w.Row.State != Released || !w.Row.Unbegun
		broken = m.grant(w, w.draw(), claim.Token, hold, anew)
	case m.takeable(w, hold): // a take-over
		broken = m.grant(w, w.draw(), claim.Token, hold, false)
	case w.Row.State == Processing && w.Row.Token == claim.Token: // an earlier send
		return true, ""
	default:
		return false, ""
	}
	if broken == "" && !heeded && !orphan {
		broken = NotStuck
	}
	return true, broken
}

// grant writes the row of a new claim. anew: what has happened so far no longer
// counts.
func (m *Model) grant(w *World, fence, token int8, hold, anew bool) (broken Promise) {
	if fence <= w.LastGrant {
		broken = FenceGrows
	}
	w.LastGrant = max(w.LastGrant, fence)
	attempts := w.Row.Attempts + 1
	if anew {
		attempts = 1
		for j := range w.Procs {
			w.Procs[j].Current = false
		}
		w.FirstHold, w.LastStart, w.Starts, w.FirstByte, w.Effects, w.Durable = 0, 0, 0, false, 0, 0
	}
	w.Row = Row{State: Processing, Fence: fence, Token: token, Hold: hold, Attempts: attempts, Claim: fence}
	return broken
}

// learn: the process knows that the row is its claim.
func (m *Model) learn(w *World, i int, reread bool) {
	p := &w.Procs[i]
	p.Phase, p.Fence, p.Token, p.Hold, p.Current = Claimed, w.Row.Fence, w.Row.Token, w.Row.Hold, true
	anew := reread && m.without(DeadlineOfOwnSend)
	p.Deadline, p.Over, p.Reread = w.Row.Lapsed && !m.without(DeadlineOfOwnSend), w.Row.Over, anew
}

// rereads: after a lost answer the row is read by token, or the attempt is
// given up and left to the janitor.
func (m *Model) rereads(w World, i int, out *steps) {
	p := w.Procs[i]
	if !p.Cut && w.Row.State == Processing && w.Row.Token == p.Token {
		next := w
		m.learn(&next, i, true)
		out.add(next, "", "re-reads by token: fence %d is its own", w.Row.Fence)
	}
	m.giveUp(w, i, "gives the attempt up", out)
}

// giveUp leaves a claim that was not started to the janitor.
func (m *Model) giveUp(w World, i int, what string, out *steps) {
	p := &w.Procs[i]
	if p.Janitor != 0 {
		return
	}
	token := p.Token
	lost := *p
	lost.Fence = w.Row.Fence
	p.done()
	if !m.without(JanitorReleases) {
		p.Janitor = token
		out.add(w, "", what+", token %d to the janitor", token)
		return
	}
	var broken Promise
	if waiting(&w, &lost) {
		broken = NotStuck
	}
	out.add(w, broken, what+", token %d", token)
}

// janitor re-reads and releases. It ends when the claim can no longer be: the
// statement is not on its way, and the row is not under its token.
func (m *Model) janitor(w World, i int, out *steps) {
	p := w.Procs[i]
	if p.Janitor == 0 {
		return
	}
	lost := Proc{Token: p.Janitor, Fence: w.Row.Fence}
	free := w.Row.State == Processing || w.Row.State == Unknown && !m.without(OwnerFreesUnknown)
	if !p.Cut && w.Row.Token == p.Janitor && free {
		next := w
		m.release(&next, w.Row.Fence, w.Row.Token, true)
		next.Procs[i].Janitor = 0
		out.add(next, "", "has its janitor release the claim of token %d", p.Janitor)
	}
	if p.Claim.Token == p.Janitor {
		return
	}
	sure := !p.Cut && !(waiting(&w, &lost) && free)
	if sure || m.without(JanitorIsSure) {
		var broken Promise
		if waiting(&w, &lost) {
			broken = NotStuck
		}
		next := w
		next.Procs[i].Janitor = 0
		out.add(next, broken, "has its janitor end (token %d)", p.Janitor)
	}
}
