package redfence

import (
	"context"
	"sync"

	"github.com/redfence/redfence/fallback"
)

// A flight is one key that is being looked up or worked on in this process,
// and the calls that wait for its verdict (R16).
type flight struct {
	fp     Fingerprint
	joined int // followers so far; guarded by flights.mu

	mu      sync.Mutex
	stage   stage
	verdict verdict         // valid once landed
	landing chan struct{}   // closed when the flight has landed; made by its first follower
	moving  []chan struct{} // closed at the next stage, for followers who do not wait
	open    func() bool     // may a follower still join; nil: yes
}

// A stage is what has happened to a flight; one does not exclude another.
type stage uint8

const (
	inHandler stage = 1 << iota // the leader runs the handler
	settling                    // the handler has returned
	elsewhere                   // the leader waits for another process
	landed                      // the verdict is there
)

// A verdict is how a flight ended. Followers share it only when it speaks of
// the key and not of its leader: a response, an unknown outcome, a mismatch.
type verdict struct {
	shared      bool
	res         Result
	err         error
	toFollowers error // instead of err, if not nil
}

// flights are the flights of one engine.
type flights struct {
	mu    sync.Mutex
	byKey map[fallback.Digest]*flight
}

// join returns the flight of the key; lead says that the caller has to lead
// it. nil means that its flight takes nobody any more.
func (f *flights) join(d fallback.Digest, fp Fingerprint) (fl *flight, lead bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl := f.byKey[d]; fl != nil {
		if fl.takes() {
			fl.joined++
			return fl, false
		}
		return nil, false
	}
	fl = &flight{fp: fp}
	if f.byKey == nil {
		f.byKey = make(map[fallback.Digest]*flight)
	}
	f.byKey[d] = fl
	return fl, true
}

// land ends the flight: nobody can join it any more, and its followers get
// the verdict. A nil flight has no followers.
func (f *flights) land(d fallback.Digest, fl *flight, v verdict) {
	if fl == nil {
		return
	}
	f.mu.Lock()
	delete(f.byKey, d)
	followed := fl.joined > 0
	f.mu.Unlock()
	if followed { // the leader's response is the leader's to change
		v.res.Response = v.res.Response.clone()
	}
	fl.mu.Lock()
	fl.verdict = v
	fl.mu.Unlock()
	fl.enter(landed)
}

// enter moves the flight to a stage and tells its followers.
func (fl *flight) enter(s stage) {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	fl.stage |= s
	for _, ch := range fl.moving {
		close(ch)
	}
	fl.moving = nil
	if s == landed && fl.landing != nil {
		close(fl.landing)
	}
}

// runs tells the followers that the handler runs in this process; from now on
// the flight takes followers only as long as open says so.
func (fl *flight) runs(open func() bool) {
	if fl == nil {
		return
	}
	fl.mu.Lock()
	fl.open = open
	fl.mu.Unlock()
	fl.enter(inHandler)
}

// settles tells the followers that the handler has returned: its outcome may
// be in the ledger, and be answered elsewhere, before this process knows.
func (fl *flight) settles() {
	if fl != nil {
		fl.enter(settling)
	}
}

// waits tells the followers that another process works on the key. What this
// process knows of it may be old the next moment.
func (fl *flight) waits() {
	if fl != nil {
		fl.enter(elsewhere)
	}
}

// started reports whether the leader's handler has started: the row carries
// the leader's fingerprint.
func (fl *flight) started() bool {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	return fl.stage&inHandler != 0
}

func (fl *flight) takes() bool {
	fl.mu.Lock()
	open := fl.open
	fl.mu.Unlock()
	return open == nil || open()
}

// A followed flight ends for its follower in one of these ways.
type followed uint8

const (
	gotVerdict   followed = iota // the verdict is shared
	leaderOnly                   // there is none to share: try again, perhaps as leader
	stillRuns                    // the handler runs in this process
	lookYourself                 // another process works on it, or its outcome may be recorded
	timeIsUp                     // the caller's context has ended
)

// follow waits for the verdict. A caller that does not wait is sent away as
// soon as it is known where the key is worked on.
func (fl *flight) follow(ctx context.Context, noWait bool) followed {
	for {
		seen, next := fl.ahead(noWait)
		switch {
		case seen&landed != 0: // it has priority over the others
			return fl.ended()
		case noWait && seen&inHandler != 0 && seen&settling == 0:
			return stillRuns
		case noWait && seen != 0:
			return lookYourself
		}
		select {
		case <-next:
		case <-ctx.Done():
			return timeIsUp
		}
	}
}

// ahead returns the flight's stage, and what is closed at its end or, for a
// caller that does not wait, at the next stage.
func (fl *flight) ahead(noWait bool) (stage, <-chan struct{}) {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	if fl.stage&landed != 0 {
		return fl.stage, nil
	}
	if noWait {
		next := make(chan struct{})
		fl.moving = append(fl.moving, next)
		return fl.stage, next
	}
	if fl.landing == nil {
		fl.landing = make(chan struct{})
	}
	return fl.stage, fl.landing
}

func (fl *flight) ended() followed {
	if fl.verdict.shared {
		return gotVerdict
	}
	return leaderOnly
}
