package scenario

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/redfence/redfence/chaos/internal/baseline"
	"github.com/redfence/redfence/chaos/internal/check"
	"github.com/redfence/redfence/chaos/internal/cluster"
	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/instance"
	"github.com/redfence/redfence/chaos/internal/proxy"
	"github.com/redfence/redfence/chaos/internal/workload"
)

// player is an engine instance in a scenario.
type player struct {
	*cluster.Member
	stage  *stage
	number int
}

// with says how to start a player.
type with struct {
	// failpoints by place: an action of package failpoint, or "wait" for a
	// pause until stage.open(place).
	failpoints map[string]string
	// args are flags of the instance.
	args []string
	// nodes that it knows; empty: all.
	nodes []int
}

// player starts an instance.
func (s *stage) player(w with) *player {
	name := fmt.Sprintf("instance-%d", len(s.players))
	rules := make([]string, 0, len(w.failpoints))
	for place, action := range w.failpoints {
		if action == "wait" {
			action = "pause-until:" + s.file(place) + "*1"
		}
		rules = append(rules, place+"="+action)
	}
	m, err := cluster.StartMember(s.ctx, s.stores, cluster.MemberOptions{
		Binary: s.options.Binary, Name: name, Dir: filepath.Join(s.dir, name), Recorder: s.recorder.URL(),
		Mutant: s.options.Mutant, Failpoints: strings.Join(rules, ","), Nodes: w.nodes,
		Args: append([]string{"-engine", cmp.Or(s.options.Engine, baseline.Ours)}, w.args...),
	})
	s.rig("start an instance", err)
	p := &player{Member: m, stage: s, number: len(s.players)}
	s.players = append(s.players, p)
	return p
}

// reached waits until the player stands at the failpoint, or has passed it. A
// scenario whose failpoint is not hit has failed.
func (p *player) reached(place string) {
	p.stage.eventually(check.Invalid, 15*time.Second, func() string {
		if p.Hits(place) == 0 {
			return "failpoint " + place + " was not hit"
		}
		return ""
	})
}

// asks is what a request asks of the handler.
type asks struct {
	waitFor string // a file of the stage
	then    string // panic or fail
	took    time.Duration
	other   bool // than the other requests of the key
}

func (a asks) header(s *stage) http.Header {
	h := http.Header{}
	if a.waitFor != "" {
		h.Set(instance.WaitHeader, s.file(a.waitFor))
	}
	h.Set(instance.ThenHeader, a.then)
	h.Set(instance.WorkHeader, a.took.String())
	if a.other {
		h.Set(instance.OtherHeader, "yes")
	}
	return h
}

// post sends a request and waits for its answer.
func (p *player) post(key string, a asks) history.Op { return p.postIn(p.stage.ctx, key, a) }

func (p *player) postIn(ctx context.Context, key string, a asks) history.Op {
	s := p.stage
	op := p.send(ctx, key, a)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ops = append(s.ops, op)
	return op
}

func (p *player) send(ctx context.Context, key string, a asks) history.Op {
	s := p.stage
	op := history.Op{Kind: history.Fresh, Key: key, Instance: p.number, Sent: s.clock()}
	workload.Send(ctx, s.client, p.URL(), &op, a.header(s))
	op.Got = s.clock()
	return op
}

// begin sends a request and does not wait; the channel gets the answer.
func (p *player) begin(key string, a asks) <-chan history.Op {
	answer := make(chan history.Op, 1)
	p.stage.group.Go(func() { answer <- p.post(key, a) })
	return answer
}

// await waits for the answer of a request that was begun.
func (s *stage) await(answer <-chan history.Op) history.Op {
	select {
	case op := <-answer:
		return op
	case <-time.After(25 * time.Second):
		s.end(check.Liveness, "a request got no answer")
	}
	return history.Op{}
}

// served posts until the handler's response comes.
func (p *player) served(key string) (op history.Op) {
	p.stage.eventually(check.Liveness, 15*time.Second, func() string {
		if op = p.post(key, asks{}); !op.OK() {
			return fmt.Sprintf("%s is answered %d %s%s", key, op.Status, op.Body, op.Err)
		}
		return ""
	})
	return op
}

// refused posts and expects that the key is in progress or unknown.
func (p *player) refused(key string) {
	op := p.post(key, asks{})
	p.stage.expect(op.Status == http.StatusConflict, "%s is answered %d %s%s, want 409", key, op.Status, op.Body, op.Err)
}

// cutRedis resets and refuses every connection to the nodes.
func (p *player) cutRedis() { p.setRedis(proxy.Faults{Refuse: true}) }

func (p *player) setRedis(f proxy.Faults) {
	for _, link := range p.Redis {
		link.Set(f)
	}
}

// onRoute waits until fresh keys of this player take the route.
func (p *player) onRoute(route string) {
	p.stage.eventually(check.Liveness, 10*time.Second, func() string {
		p.stage.probes++
		key := fmt.Sprintf("%s-probe-%d", p.stage.key, p.stage.probes)
		op := p.post(key, asks{})
		if got := p.stage.recorder.StartedOn(key); !op.OK() || got != route {
			return fmt.Sprintf("a fresh key is answered %d by the %s route, want %s", op.Status, got, route)
		}
		return ""
	})
}
