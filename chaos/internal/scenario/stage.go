package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/redfence/redfence/chaos/internal/check"
	"github.com/redfence/redfence/chaos/internal/cluster"
	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/recorder"
)

// stage is what a scenario is played on. Its methods end the scenario, with a
// panic that perform catches, when something does not go as the script says.
type stage struct {
	ctx      context.Context
	options  Options
	stores   *cluster.Stores
	dir      string
	key      string // the one that the scenario is about
	began    time.Time
	recorder *recorder.Recorder
	client   *http.Client
	players  []*player
	probes   int            // fresh keys that onRoute has used
	group    sync.WaitGroup // requests under way

	exceptions check.Exceptions

	mu  sync.Mutex // guards ops
	ops []history.Op
}

// curtain is what ends a scenario early.
type curtain struct {
	class check.Class
	what  string
}

func newStage(ctx context.Context, stores *cluster.Stores, o Options, name string) (*stage, error) {
	dir := filepath.Join(o.Dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	s := &stage{
		ctx: ctx, options: o, stores: stores, dir: dir, key: name, began: time.Now(),
		client:     &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 20 * time.Second},
		exceptions: check.Exceptions{Starts: map[string]int{}, Expired: map[string]bool{}},
	}
	var err error
	s.recorder, err = recorder.New(filepath.Join(dir, history.EffectsFile), s.clock)
	return s, err
}

func (s *stage) clock() time.Duration { return time.Since(s.began) }

// perform plays the script and judges what happened.
func (s *stage) perform(play func(*stage)) (class check.Class, what string) {
	defer func() {
		if r := recover(); r != nil {
			end, ok := r.(curtain)
			if !ok {
				panic(r)
			}
			class, what = end.class, end.what
		}
		// What must never happen outweighs why the script ended.
		if found := s.safety(); len(found) > 0 {
			class, what = check.Safety, fmt.Sprintf("%s %s: %s", found[0].Check, found[0].Key, found[0].What)
		}
	}()
	s.bringUp()
	play(s)
	return check.Fine, ""
}

// bringUp makes every node run, empty, and Postgres run.
func (s *stage) bringUp() {
	for _, node := range s.stores.Redis {
		if node.Pid() == 0 {
			s.rig("restart a node", node.Restart())
		}
		s.rig("empty a node", node.Client().FlushAll(s.ctx).Err())
	}
	if s.stores.Postgres.Pid() == 0 {
		s.rig("restart Postgres", s.stores.Postgres.Restart())
	}
}

// safety judges all that was seen. Rows are read where Postgres runs.
func (s *stage) safety() []check.Violation {
	s.mu.Lock()
	h := &history.History{Setup: s.setup(), Ops: append([]history.Op(nil), s.ops...), Effects: s.recorder.Effects()}
	s.mu.Unlock()
	if s.stores.Postgres.Pid() == 0 {
		_ = s.stores.Postgres.Restart() // Rows says what is wrong, if anything is
	}
	if h.Setup.Ledger() {
		var keys []string
		for _, op := range h.Ops {
			keys = append(keys, op.Key)
		}
		var err error
		if h.Rows, err = s.stores.Rows(context.WithoutCancel(s.ctx), keys); err != nil {
			return []check.Violation{{Class: check.Safety, Check: "ledger not readable", What: err.Error()}}
		}
	}
	return check.JudgeSafety(h, s.exceptions)
}

func (s *stage) setup() history.Setup { return history.Setup{Engine: s.options.Engine} }

func (s *stage) end(class check.Class, format string, args ...any) {
	panic(curtain{class, fmt.Sprintf(format, args...)})
}

// rig ends the scenario as invalid when something of ours failed.
func (s *stage) rig(doing string, err error) {
	if err != nil {
		s.end(check.Invalid, "%s: %v", doing, err)
	}
}

// expect ends the scenario when the engine did not do what it should.
func (s *stage) expect(ok bool, format string, args ...any) {
	if !ok {
		s.end(check.Liveness, format, args...)
	}
}

// happened ends the scenario as invalid when what it is about has not happened.
func (s *stage) happened(ok bool, format string, args ...any) {
	if !ok {
		s.end(check.Invalid, format, args...)
	}
}

// never ends the scenario when the engine did what it must not do.
func (s *stage) never(bad bool, format string, args ...any) {
	if bad {
		s.end(check.Safety, format, args...)
	}
}

// eventually waits until ask says nothing more; what it says last is the
// reason.
func (s *stage) eventually(class check.Class, within time.Duration, ask func() string) {
	end := time.Now().Add(within)
	for {
		why := ask()
		switch {
		case why == "":
			return
		case time.Now().After(end) || s.ctx.Err() != nil:
			s.end(class, "%s, after %v", why, within)
		}
		s.sleep(5 * time.Millisecond)
	}
}

// sleep lets time pass that the scenario is about, such as a lease.
func (s *stage) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ctx.Done():
		s.end(check.Liveness, "the scenario took longer than %v", limit)
	}
}

// file is the path of a file that something may wait for.
func (s *stage) file(name string) string { return filepath.Join(s.dir, name) }

// open makes the file, so that what waits for it goes on.
func (s *stage) open(name string) {
	s.rig("open "+name, os.WriteFile(s.file(name), nil, 0o644))
}

// starts returns how often the handler of a key has started.
func (s *stage) starts(key string) int {
	n := 0
	for _, e := range s.recorder.Effects() {
		if e.Key == key && e.Kind == history.Start {
			n++
		}
	}
	return n
}

// started waits until the handler of a key has started so often.
func (s *stage) started(key string, times int) {
	s.eventually(check.Liveness, 10*time.Second, func() string {
		if n := s.starts(key); n < times {
			return fmt.Sprintf("the handler of %s has started %d times, not %d", key, n, times)
		}
		return ""
	})
}

func (s *stage) kill(nodes ...int) {
	for _, i := range nodes {
		s.rig("kill a node", s.stores.Redis[i].Kill())
	}
}

// restart brings nodes back empty, whether they were dead or not.
func (s *stage) restart(nodes ...int) {
	for _, i := range nodes {
		s.rig("restart a node", s.stores.Redis[i].Restart())
	}
}

// close ends what the scenario has left.
func (s *stage) close() error {
	var failed error
	for _, p := range s.players {
		failed = errors.Join(failed, p.Kill())
	}
	s.group.Wait()
	s.client.CloseIdleConnections()
	return errors.Join(failed, s.recorder.Close())
}
