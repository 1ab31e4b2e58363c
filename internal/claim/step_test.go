package claim

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var epoch = time.Unix(1_700_000_000, 0)

func at(d time.Duration) time.Time { return epoch.Add(d) }

func grant(lease time.Duration) Grant {
	return Grant{Fence: 1, Attempt: 1, Deadline: at(lease), Cap: at(time.Minute)}
}

// walk applies the events and returns the last state and actions.
func walk(t *testing.T, s State, events ...Event) (State, Action) {
	t.Helper()
	var act Action
	for _, e := range events {
		s, act = Step(s, e)
	}
	return s, act
}

func running(t *testing.T, terms Terms) State {
	t.Helper()
	s, act := walk(t, State{Terms: terms}, Event{Kind: Begin},
		Event{Kind: Granted, Grant: grant(time.Second)}, Event{Kind: Start, Now: at(0)})
	if s.Phase != Running || act != StartRun {
		t.Fatalf("phase %v, actions %b", s.Phase, act)
	}
	return s
}

func TestSteps(t *testing.T) {
	begun := []Event{{Kind: Begin}}
	held := append(begun, Event{Kind: Granted, Grant: grant(time.Second)})
	run := append(held, Event{Kind: Start, Now: at(0)})
	returned := func(o Outcome) []Event { return append(run[:3:3], Event{Kind: Returned, Outcome: o}) }
	doubt := append(begun[:1:1], Event{Kind: Unconfirmed})
	tests := []struct {
		name   string
		terms  Terms
		events []Event
		last   Event
		phase  Phase
		act    Action
	}{
		{"a verdict against us sends back to the row", Terms{}, begun, Event{Kind: Denied}, Over, Look},
		{"a claim that was not made fails", Terms{}, begun, Event{Kind: Rejected}, Over, Fail},
		{"a lost reply is re-read", Terms{}, begun, Event{Kind: Unconfirmed}, Doubtful, Reread},
		{"the re-read shows it as ours", Terms{}, doubt, Event{Kind: Granted, Grant: grant(1)}, Held, Watch},
		{"given up, it goes to the janitor", Terms{}, doubt, Event{Kind: GiveUp}, Orphan, Fail | HandOver | Reread},
		{"the janitor gives back what it finds", Terms{}, append(doubt[:2:2], Event{Kind: GiveUp}), Event{Kind: Granted, Grant: grant(1)}, Late, SendOutcome},
		{"the janitor ends when it is certain", Terms{}, append(doubt[:2:2], Event{Kind: GiveUp}), Event{Kind: NotOurs}, Over, 0},
		{"another claim's row does not end it", Terms{}, append(doubt[:2:2], Event{Kind: GiveUp}), Event{Kind: Unclear}, Orphan, Reread},
		{"a caller that is gone starts nothing", Terms{}, held, Event{Kind: Start, Now: at(0), CallerGone: true}, Settling, SendOutcome},
		{"too little time left starts nothing", Terms{Margin: time.Second}, held, Event{Kind: Start, Now: at(0)}, Settling, SendOutcome},
		{"a response is confirmed", Terms{}, returned(Complete), Event{Kind: Confirmed}, Over, Unwatch | Durable | Put},
		{"a refused response is not durable", Terms{}, returned(Complete), Event{Kind: Refused}, Over, Unwatch | NotDurable},
		{"an unrecorded response goes on in the background", Terms{}, returned(Complete), Event{Kind: Failed}, Late, HandOver | SendOutcome | NotDurable},
		{"a released handler error", Terms{}, returned(Release), Event{Kind: Confirmed}, Over, Unwatch | Settled},
		{"under Hold a passed deadline warns", Terms{}, run, Event{Kind: Tick, Now: at(time.Second)}, Running, WarnLost},
		{"under Hold it cancels by choice", Terms{CancelOnLost: true}, run, Event{Kind: Tick, Now: at(time.Second)}, Running, WarnLost | CancelLost},
		{"under Retry it cancels and renews no more", Terms{Retry: true}, run, Event{Kind: Tick, Now: at(time.Second)}, Running, WarnLost | CancelLost | Unwatch},
		{"an early tick changes nothing", Terms{Retry: true}, run, Event{Kind: Tick, Now: at(time.Second - 1)}, Running, 0},
		{"what streams becomes a tombstone", Terms{}, append(run[:3:3], Event{Kind: Streamed}), Event{Kind: Returned, Outcome: Complete}, Settling, SendOutcome},
		{"under Hold it streams though the write may have failed", Terms{}, run, Event{Kind: NotStreamed}, Running, 0},
		{"under Retry it is left to be taken over", Terms{Retry: true}, run, Event{Kind: NotStreamed}, Running, Unwatch},
		{"once it streams, a passed deadline warns only", Terms{Retry: true}, append(run[:3:3], Event{Kind: Streamed}), Event{Kind: Tick, Now: at(time.Second)}, Running, WarnLost},
		{"a COMMIT in doubt is left to the row", Terms{Retry: true}, run, Event{Kind: Left}, Over, Unwatch},
		{"MaxProcessing cancels", Terms{}, append(run[:3:3], Event{Kind: Tick, Now: at(time.Second)}), Event{Kind: Tick, Now: at(time.Minute)}, Running, CancelMax | Unwatch},
		{"a refused renewal warns under Hold", Terms{}, run, Event{Kind: RenewRefused}, Running, WarnLost | Unwatch},
		{"a refused renewal cancels under Retry", Terms{Retry: true}, run, Event{Kind: RenewRefused}, Running, WarnLost | CancelLost | Unwatch},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := walk(t, State{Terms: tt.terms}, tt.events...)
			s, act := Step(s, tt.last)
			if s.Phase != tt.phase || act != tt.act {
				t.Errorf("phase %v, actions %b; want %v, %b", s.Phase, act, tt.phase, tt.act)
			}
		})
	}
}

func TestStreamDecidesTheOutcome(t *testing.T) {
	for _, tt := range []struct {
		retry bool
		kind  Kind
		want  Outcome
	}{{false, Streamed, Bury}, {true, Streamed, Bury}, {false, NotStreamed, Bury}, {true, NotStreamed, Close}} {
		s, _ := walk(t, running(t, Terms{Retry: tt.retry}), Event{Kind: tt.kind, Grant: grant(time.Second)}, Event{Kind: Returned, Outcome: Release})
		if s.Outcome != tt.want {
			t.Errorf("retry %v, event %d: outcome %d, want %d", tt.retry, tt.kind, s.Outcome, tt.want)
		}
	}
}

func TestOnlyRenewalsMoveTheDeadline(t *testing.T) {
	s := running(t, Terms{})
	s, _ = Step(s, Event{Kind: Renewed, Grant: Grant{Deadline: at(3 * time.Second)}})
	s, _ = Step(s, Event{Kind: Renewed, Grant: Grant{Deadline: at(2 * time.Second)}}) // overtaken
	if got := s.NextTick(); !got.Equal(at(3 * time.Second)) {
		t.Errorf("deadline %v, want %v", got, at(3*time.Second))
	}
	s, act := Step(s, Event{Kind: Tick, Now: at(2 * time.Second)})
	if act != 0 || s.Lost {
		t.Errorf("an old timer made it lost: %b", act)
	}
}

func TestLateRenewalDoesNotReviveRetry(t *testing.T) {
	s := running(t, Terms{Retry: true})
	s, _ = Step(s, Event{Kind: Tick, Now: at(time.Second)})
	s, _ = Step(s, Event{Kind: Renewed, Grant: Grant{Deadline: at(time.Hour)}})
	if !s.Lost || s.Grant.Deadline.After(at(time.Second)) || s.Joinable(at(0)) {
		t.Errorf("a lost claim came back: %+v", s)
	}
}

// TestLife drives random lives: whatever comes in whatever order, the claims
// of the package comment hold.
func TestLife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := State{Terms: Terms{
			Retry:        rapid.Bool().Draw(t, "retry"),
			CancelOnLost: rapid.Bool().Draw(t, "cancelOnLost"),
			Margin:       time.Duration(rapid.IntRange(0, 300).Draw(t, "margin")) * time.Millisecond,
		}}
		var m monitor
		now := time.Duration(0)
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			now += time.Duration(rapid.IntRange(0, 500).Draw(t, "pass")) * time.Millisecond
			e := Event{
				Kind:       Kind(rapid.IntRange(int(Begin), int(Closing)).Draw(t, "kind")),
				Now:        at(now),
				Outcome:    Outcome(rapid.IntRange(int(Complete), int(Bury)).Draw(t, "outcome")),
				CallerGone: rapid.Bool().Draw(t, "gone"),
				Grant:      Grant{Deadline: at(now + time.Duration(rapid.IntRange(0, 2000).Draw(t, "lease"))*time.Millisecond), Cap: at(10 * time.Second)},
			}
			next, act := Step(s, e)
			m.check(t, s, e, next, act)
			s = next
		}
	})
}

// monitor remembers what must happen at most once.
type monitor struct {
	starts, answers int
}

func (m *monitor) check(t *rapid.T, s State, e Event, next State, act Action) {
	if act.Has(StartRun) {
		m.starts++
		if s.Phase != Held || e.CallerGone || !e.Now.Add(s.Margin).Before(s.Grant.Deadline) || s.Lost {
			t.Fatalf("started in %v, gone %v, deadline %v, now %v, lost %v", s.Phase, e.CallerGone, s.Grant.Deadline, e.Now, s.Lost)
		}
	}
	for _, a := range []Action{Durable, NotDurable, Settled, Fail, Look} {
		if act.Has(a) {
			m.answers++
		}
	}
	switch {
	case m.starts > 1:
		t.Fatal("started twice")
	case m.answers > 1:
		t.Fatal("answered twice")
	case s.Started && !next.Started:
		t.Fatal("the one-way flag was cleared")
	case next.Phase < s.Phase && !(s.Phase == Orphan && next.Phase == Held):
		t.Fatalf("from %v back to %v", s.Phase, next.Phase)
	case act.Has(Durable) && (e.Kind != Confirmed || next.Outcome != Complete):
		t.Fatal("durable without the ledger's word")
	case act.Has(Put) && (e.Kind != Confirmed || next.Outcome != Complete):
		t.Fatal("cached without the ledger's word")
	case next.Streams && next.Outcome != None && next.Outcome != Bury:
		t.Fatal("a response whose first byte may have left was not buried")
	case act.Has(CancelLost) && !s.Retry && !s.CancelOnLost:
		t.Fatal("cancelled under Hold")
	case act.Has(SendOutcome) && next.Outcome == None:
		t.Fatal("nothing to record")
	case next.Started && next.Outcome != s.Outcome && e.Kind != Returned:
		t.Fatal("the outcome of a started handler is the handler's to give")
	case e.Kind != Renewed && e.Kind != Granted && e.Kind != Streamed && next.Grant != s.Grant:
		t.Fatal("something but the ledger moved the deadline")
	case act.Has(SendClaim | Reread), act.Has(SendClaim | SendOutcome), act.Has(Reread | SendOutcome):
		t.Fatal("more than one call")
	case next.Phase == Over && act.Has(SendOutcome):
		t.Fatal("a call after the end")
	}
}
