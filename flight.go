package redfence

import (
	"context"
	"sync"

	"github.com/redfence/redfence/fallback"
)

// A flight is one key that is being looked up or worked on in this process,
// and the calls that wait for its verdict (R16).
type flight struct {
	fp      Fingerprint
	done    chan struct{} // closed when the verdict is there
	verdict verdict       // valid once done is closed
	joined  int           // followers so far; guarded by flights.mu

	running   chan struct{} // closed when the leader runs the handler
	settling  chan struct{} // closed when the handler has returned
	elsewhere chan struct{} // closed when the leader waits for another process

	mu   sync.Mutex
	open func() bool // may a follower still join; nil: yes
}

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
	fl = &flight{
		fp: fp, done: make(chan struct{}),
		running: make(chan struct{}), settling: make(chan struct{}), elsewhere: make(chan struct{}),
	}
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
	fl.verdict = v
	close(fl.done)
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
	closeOnce(fl.running)
}

// settles tells the followers that the handler has returned: its outcome may
// be in the ledger, and be answered elsewhere, before this process knows.
func (fl *flight) settles() {
	if fl != nil {
		closeOnce(fl.settling)
	}
}

// waits tells the followers that another process works on the key. What this
// process knows of it may be old the next moment.
func (fl *flight) waits() {
	if fl != nil {
		closeOnce(fl.elsewhere)
	}
}

// closeOnce closes a channel that only the caller's goroutine closes.
func closeOnce(ch chan struct{}) {
	select {
	case <-ch:
	default:
		close(ch)
	}
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
	var running, elsewhere <-chan struct{}
	if noWait {
		running, elsewhere = fl.running, fl.elsewhere
	}
	select {
	case <-fl.done: // it has priority over the others
		return fl.ended()
	default:
	}
	select {
	case <-fl.done:
		return fl.ended()
	case <-running:
		select {
		case <-fl.settling:
			return lookYourself
		default:
			return stillRuns
		}
	case <-elsewhere:
		return lookYourself
	case <-ctx.Done():
		return timeIsUp
	}
}

func (fl *flight) ended() followed {
	if fl.verdict.shared {
		return gotVerdict
	}
	return leaderOnly
}
