package lock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/observe"
)

// What a guarded node keeps beside the locks: two keys, whatever their number.
const (
	markerKey  = "rf1:{node}:guard"
	counterKey = "rf1:{node}:fence"
)

// guard keeps nodes that lost their memory (restart, FLUSHALL) from voting
// until every lock that they may have forgotten has lapsed. Each node carries
// a marker with the run id of the server that wrote it; each acquire, or the tally
// of several, names the marker as it was read over the same connection, which does
// not survive a restart, and a node with another one does not vote. A marker also carries a
// nonce, drawn whenever the node leaves the guard: what a process remembers of
// a node's counter is worth nothing after that.
type guard struct {
	maxTTL   time.Duration
	nodes    []*node.Node
	observer observe.Observer
	mu       sync.Mutex // orders claims
	// order makes the nodes see the rounds of this process in one order, so
	// that their counters stay the same (fence.go). It guards proposed.
	order    sync.Mutex
	proposed int64
	standing []standing
	// top is the largest counter seen on any node.
	top atomic.Int64
}

// standing is what this process knows of one node. The marker is written by
// the node's goroutine.
type standing struct {
	run     atomic.Pointer[string]
	marker  atomic.Pointer[any] // a string
	counter atomic.Int64        // the node has reached it since the marker was read
	rejoins atomic.Bool         // a rejoin is running
}

func newGuard(maxTTL time.Duration, n int, observer observe.Observer) *guard {
	return &guard{maxTTL: maxTTL, observer: observer, standing: make([]standing, n)}
}

// unknownMarker is equal to no node's.
const unknownMarker = "unknown"

// marker returns the marker as an argument, so that it is boxed only once.
func (g *guard) marker(i int) any {
	if m := g.standing[i].marker.Load(); m != nil {
		return *m
	}
	return unknownMarker
}

func (g *guard) run(i int) string {
	if m := g.standing[i].run.Load(); m != nil {
		return *m
	}
	return unknownMarker
}

// read records a node's marker, and forgets what went with the one before.
func (g *guard) read(i int, marker string) {
	s := &g.standing[i]
	if old := s.marker.Load(); old != nil && *old == marker {
		return
	}
	s.counter.Store(0)
	boxed := any(marker)
	s.marker.Store(&boxed)
}

// reached records that a node's counter is at least n.
func (g *guard) reached(i int, n int64) {
	raise(&g.standing[i].counter, n)
	raise(&g.top, n)
}

// propose returns a fence beyond all that this process has proposed or seen.
func (g *guard) propose() int64 {
	g.proposed = max(g.proposed, g.top.Load()) + 1
	return g.proposed
}

func raise(to *atomic.Int64, n int64) {
	for {
		old := to.Load()
		if n <= old || to.CompareAndSwap(old, n) {
			return
		}
	}
}

// hello greets a new connection: it reads the run id of the server behind it
// and the node's standing.
func (g *guard) hello(ctx context.Context, n *node.Node, conn *redis.Conn) error {
	run, err := runID(ctx, conn)
	if err != nil {
		return err
	}
	i := n.Index()
	if err := g.claim(i, run); err != nil {
		return err
	}
	g.read(i, unknownMarker)
	answer, err := conn.Eval(ctx, standingSource, []string{markerKey, counterKey}, run, g.maxTTL.Milliseconds()).Result()
	if err != nil {
		return err
	}
	var setup *setupError
	if _, err := g.judge(i, answer, false); errors.As(err, &setup) {
		return err
	}
	return nil
}

// claim records which server a node is, unless another node is the same one.
func (g *guard) claim(i int, run string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for other := range g.standing {
		if other != i && g.run(other) == run {
			return &setupError{fmt.Sprintf("the same server as node %d, which must not vote twice; list every server once", other)}
		}
	}
	g.standing[i].run.Store(&run)
	return nil
}

func runID(ctx context.Context, conn redis.Cmdable) (string, error) {
	info, err := conn.Info(ctx, "server").Result()
	if err != nil {
		return "", fmt.Errorf("read the run id: %w", err)
	}
	for line := range strings.Lines(info) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", errors.New("INFO server shows no run_id: is there a proxy between? A guarded node needs a direct connection")
}

// setupError: the deployment is not what this locker takes it for. A node that
// shows it is not used, and New refuses.
type setupError struct{ text string }

func (e *setupError) Error() string { return e.text }

func otherMaxTTL(ours, theirs time.Duration) error {
	return &setupError{fmt.Sprintf("MaxTTL: %v here, %v on the node; it is one constant per deployment: "+
		"give every locker the same, or remove %s on each node while no lock is held", ours, theirs, markerKey)}
}

// judge reads the answer of standing.lua. A nil error means that the node
// votes. A node whose time under guard is up is helped to rejoin, if asked for.
func (g *guard) judge(i int, answer any, help bool) (counter int64, err error) {
	kind, detail, counter, ok := parseStanding(answer)
	if !ok {
		return 0, errUnexpected
	}
	switch kind {
	case "ok":
		g.read(i, detail)
		g.reached(i, counter)
		return counter, nil
	case "max":
		ms, _ := strconv.ParseInt(detail, 10, 64)
		return 0, otherMaxTTL(g.maxTTL, time.Duration(ms)*time.Millisecond)
	}
	g.read(i, unknownMarker)
	ms, _ := strconv.ParseInt(detail, 10, 64)
	if ms == 0 {
		if help {
			g.rejoin(i)
		}
		return counter, &GuardError{Reason: "it lost its memory and has yet to catch up with the other nodes", Until: time.Now()}
	}
	return counter, &GuardError{Reason: "it lost its memory", Until: time.Now().Add(time.Duration(ms) * time.Millisecond)}
}

func parseStanding(answer any) (kind, detail string, counter int64, ok bool) {
	list, _ := answer.([]any)
	if len(list) != 3 {
		return "", "", 0, false
	}
	kind, ok1 := list[0].(string)
	detail, ok2 := list[1].(string)
	text, ok3 := list[2].(string)
	counter, err := strconv.ParseInt(text, 10, 64)
	return kind, detail, counter, ok1 && ok2 && ok3 && err == nil
}

// ask asks a node for its standing; then gets the counter and, when the node
// does not vote, why. It runs on the node's goroutine.
func (g *guard) ask(i int, help bool, then func(counter int64, err error)) {
	q := &question{g: g, i: i, help: help, then: then}
	q.op.Script = standingScript
	q.op.Args = standingScript.Command([]string{markerKey, counterKey}, unknownMarker, g.maxTTL.Milliseconds())
	q.op.To = q
	g.nodes[i].Send(&q.op)
}

type question struct {
	g    *guard
	i    int
	op   node.Op
	help bool
	then func(counter int64, err error)
}

// Bind implements node.Binder.
func (q *question) Bind(op *node.Op) { op.Args[argv(2)] = q.g.run(q.i) }

// Reply implements node.Receiver.
func (q *question) Reply(_ *node.Op, value any, err error) {
	var counter int64
	if err == nil {
		counter, err = q.g.judge(q.i, value, q.help)
	}
	q.then(counter, err)
}

// argv is where the first argument of a script with that many keys stands in
// its command.
func argv(keys int) int { return 3 + keys }

// isMismatch recognises the answer of a script that met another marker than
// the one it was given.
func isMismatch(value any) bool {
	list, ok := value.([]any)
	return ok && len(list) == 0
}

// ask finds out why the node did not vote: when it has only rejoined, the
// command is sent once more.
func (s *slot) ask() {
	s.asked = true
	s.call.guard.ask(s.i, true, func(_ int64, err error) {
		s.call.mu.Lock()
		again := err == nil && !s.call.gaveUp && !s.call.retired
		s.clear = !again && !s.placed
		s.call.mu.Unlock()
		switch {
		case again:
			s.node().Send(&s.op)
		case err == nil:
			s.voted(nil, node.ErrCancelled)
		default:
			s.voted(nil, err)
		}
	})
}
