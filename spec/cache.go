package main

// R7, R12, R16: answers without a claim.

// replays: a duplicate is answered from a cache node, the near cache or the
// row.
func (m *Model) replays(w World, i int, out *steps) {
	p := w.Procs[i]
	if p.Phase != Idle {
		return
	}
	for node := range w.Cache {
		if r := w.Cache[node].Response; m.fresh(&w, r) {
			next := w
			if m.Near {
				next.Procs[i].Near = r
			}
			m.replayed(w, next, r, "replays response %d from a cache node", out)
		}
	}
	if m.fresh(&w, p.Near) {
		m.replayed(w, w, p.Near, "replays response %d from its near cache", out)
	}
	if !p.Cut && w.Row.State == Completed && !w.Expired.has(w.Row.Response) {
		next := w
		next.Procs[i].Put = w.Row.Response
		m.replayed(w, next, w.Row.Response, "replays response %d from the row", out)
	}
}

// fresh: the reader judges expiry by its estimate of the ledger's clock.
func (m *Model) fresh(w *World, response int8) bool {
	return response != 0 && (m.without(ReaderJudgesExpiry) || !w.Expired.has(response))
}

func (m *Model) replayed(before, w World, response int8, what string, out *steps) {
	broken := m.durable(&w, response)
	if broken != "" || w != before {
		out.add(w, broken, what, response)
	}
}

// puts: a put may arrive any time later; it never replaces a larger fence.
func (m *Model) puts(w World, i int, out *steps) {
	put := w.Procs[i].Put
	if put == 0 {
		return
	}
	for node := range w.Cache {
		n := w.Cache[node]
		if n.Response == put || put < n.Marker && !m.without(MarkersOfForget) {
			continue
		}
		next := w
		next.Cache[node].Response = put
		out.add(next, "", "puts response %d into a cache node", put)
	}
}

// joins: a duplicate joins the flight in its process.
func (m *Model) joins(w World, i int, out *steps) {
	p := w.Procs[i]
	flight := p.Phase == Cleared || p.Phase == Running || p.Phase == Returned
	late := (p.Deadline || p.Over) && !m.without(FreshFlights)
	if flight && !late && !m.Tx && p.Follower == 0 && w.Durable != 0 {
		w.Procs[i].Follower = w.Durable
		out.add(w, "", "takes a follower (response %d is durable)", w.Durable)
	}
}

// forgets: R12. Every node that answers forgets and keeps the fence; the other
// may serve the old record until expires_at, and is reported.
func (m *Model) forgets(w World, out *steps) {
	if w.Used.Forgets >= m.Max.Forgets {
		m.nearForget(w, out)
		return
	}
	may := terminal(&w) && !w.Expired.has(w.Row.Response)
	if m.without(ForgetTerminal) {
		may = w.Row.State != Absent && w.Row.State != Released
	}
	if may {
		m.forget(w, true, out)
		if w.Cache[1].Response != 0 {
			m.forget(w, false, out)
		}
	}
	m.nearForget(w, out)
}

func (m *Model) forget(w World, all bool, out *steps) {
	w.Used.Forgets++
	if w.Row.Response != 0 && (all || m.without(ForgetAsksAll)) {
		w.Erasing.add(w.Row.Response)
	}
	w.Durable = 0
	fence := w.draw()
	if m.without(ForgetTerminal) && !terminal(&w) {
		m.release(&w, fence, 0, false)
	} else {
		w.Row.State, w.Row.Fence, w.Row.Token = Tombstone, fence, 0
	}
	w.Cache[0] = Node{Marker: fence}
	what := "Forget under fence %d, one node cannot be reached"
	if all {
		w.Cache[1] = Node{Marker: fence}
		what = "Forget under fence %d"
	}
	out.add(w, "", what, fence)
}

// nearForget: near caches forget within 30 s.
func (m *Model) nearForget(w World, out *steps) {
	if w.Erasing == 0 {
		return
	}
	for j := range w.Procs {
		if w.Erasing.has(w.Procs[j].Near) {
			w.Procs[j].Near = 0
		}
	}
	w.Erased |= w.Erasing
	w.Erasing = 0
	out.add(w, "", "30 s pass after Forget", 0)
}
