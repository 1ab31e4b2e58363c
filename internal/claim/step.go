package claim

// Step returns the state after the event and what to do now. An event that
// means nothing in the state changes nothing: late answers, late ticks.
func Step(s State, e Event) (State, Action) {
	switch e.Kind {
	case Renewed:
		return renewed(s, e.Grant), 0
	case RenewRefused:
		return renewRefused(s)
	case Tick:
		return tick(s, e)
	}
	switch s.Phase {
	case Fresh:
		if e.Kind == Begin {
			s.Phase = Claiming
			return s, SendClaim
		}
	case Claiming:
		return claiming(s, e)
	case Doubtful, Orphan:
		return doubtful(s, e)
	case Held:
		if e.Kind == Start {
			return start(s, e)
		}
	case Running:
		return run(s, e)
	case Settling:
		return settling(s, e)
	case Late:
		return late(s, e)
	}
	return s, 0
}

func claiming(s State, e Event) (State, Action) {
	switch e.Kind {
	case Granted:
		return held(s, e.Grant)
	case Denied:
		s.Phase = Over
		return s, Look
	case Rejected:
		s.Phase = Over
		return s, Fail
	case Unconfirmed:
		s.Phase = Doubtful
		return s, Reread
	}
	return s, 0
}

// doubtful is also the orphan's: what it finds as its own it gives back, since
// its handler was not started.
func doubtful(s State, e Event) (State, Action) {
	switch e.Kind {
	case Granted:
		if s.Phase == Orphan {
			s.Phase, s.Grant, s.Outcome = Late, e.Grant, Release
			return s, SendOutcome
		}
		return held(s, e.Grant)
	case NotOurs:
		orphan := s.Phase == Orphan
		s.Phase = Over
		if orphan {
			return s, 0
		}
		return s, Look
	case Unclear:
		return s, Reread
	case GiveUp:
		if s.Phase == Doubtful {
			s.Phase = Orphan
			return s, Fail | HandOver | Reread
		}
		return s, Reread // the janitor does not give up
	case Closing:
		s.Phase = Over
	}
	return s, 0
}

func held(s State, g Grant) (State, Action) {
	s.Phase, s.Grant = Held, g
	return s, Watch
}

// start is the only place that starts a handler (R13).
func start(s State, e Event) (State, Action) {
	timely := !s.Lost && !s.Capped && e.Now.Add(s.Margin).Before(s.NextTick())
	if e.CallerGone || !timely {
		s.Phase, s.Outcome = Settling, Release
		return s, SendOutcome
	}
	s.Phase, s.Started = Running, true
	return s, StartRun
}

func run(s State, e Event) (State, Action) {
	switch e.Kind {
	case Streamed: // from now on nobody can take it over
		s.Streams, s.Retry = true, false
		return renewed(s, e.Grant), 0
	case NotStreamed:
		if s.Retry { // R3: nothing leaves, and the row lapses unless the write has landed
			s.Forgone = true
			return s, Unwatch
		}
		s.Streams = true
	case Returned:
		s.Phase, s.Outcome = Settling, e.Outcome
		switch {
		case s.Streams:
			s.Outcome = Bury
		case s.Forgone:
			s.Outcome = Close
		}
		return s, SendOutcome
	case Left:
		s.Phase = Over
		return s, Unwatch
	}
	return s, 0
}

// renewed moves the deadline, and only forward: answers may overtake each
// other. Under Retry a lost claim stays lost, whatever a late answer says.
func renewed(s State, g Grant) State {
	if !s.live() || (s.Lost && s.Retry) {
		return s
	}
	if g.Deadline.After(s.Grant.Deadline) {
		s.Grant.Deadline = g.Deadline
	}
	return s
}

// live: the claim is ours as far as we know, and nothing is settled.
func (s State) live() bool { return s.Phase >= Held && s.Phase < Over }

func renewRefused(s State) (State, Action) {
	if !s.live() {
		return s, 0
	}
	return lost(s, Unwatch)
}

// lost marks the claim as lost, once.
func lost(s State, also Action) (State, Action) {
	if s.Lost {
		return s, also
	}
	s.Lost = true
	if s.Phase != Running {
		return s, also
	}
	also |= WarnLost
	if s.Retry || s.CancelOnLost {
		also |= CancelLost
	}
	return s, also
}

func tick(s State, e Event) (State, Action) {
	if !s.live() {
		return s, 0
	}
	var act Action
	if !s.Lost && !e.Now.Before(s.Grant.Deadline) {
		s, act = lost(s, 0)
		if s.Retry && s.Phase <= Running {
			act |= Unwatch // R5: nothing is renewed any more; Late renews as R4 allows
		}
	}
	if !s.Capped && !e.Now.Before(s.Grant.Cap) {
		s.Capped = true
		if s.Phase <= Running {
			act |= Unwatch
		}
		if s.Phase == Running {
			act |= CancelMax
		}
	}
	return s, act
}

func settling(s State, e Event) (State, Action) {
	switch e.Kind {
	case Confirmed:
		s.Phase = Over
		return s, Unwatch | s.answer(Durable, Put)
	case Refused:
		s.Phase = Over
		return s, Unwatch | s.answer(NotDurable, 0)
	case Failed:
		s.Phase = Late
		return s, HandOver | SendOutcome | s.answer(NotDurable, 0)
	}
	return s, 0
}

// answer is what the caller is told: of a response whether it is durable, of
// anything else what the handler said, or that nothing was started.
func (s State) answer(response, also Action) Action {
	switch {
	case s.Outcome == Complete:
		return response | also
	case s.Started:
		return Settled
	}
	return Fail
}

func late(s State, e Event) (State, Action) {
	switch e.Kind {
	case Confirmed:
		s.Phase = Over
		if s.Outcome == Complete {
			return s, Unwatch | Put
		}
		return s, Unwatch
	case Refused, Closing:
		s.Phase = Over
		return s, Unwatch
	case Failed:
		return s, SendOutcome
	}
	return s, 0
}
