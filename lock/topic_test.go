package lock

import (
	"testing"

	"github.com/redfence/redfence/internal/testenv"
)

// TestEveryNodeTellsThoseWhoLookElsewhere: one node's word is enough for each of
// them, whatever another node has told those who came before.
func TestEveryNodeTellsThoseWhoLookElsewhere(t *testing.T) {
	for what, tell := range map[string]func(*topic, int){
		"released": func(t *topic, i int) { t.released(i, "token") },
		"free":     func(t *topic, i int) { t.answered(i, false) },
	} {
		hint := make(chan struct{}, 1)
		topic := &topic{s: &subscriber{quorum: 2}, watchers: []chan struct{}{hint}}
		for i := range 3 {
			tell(topic, i)
			select {
			case <-hint:
			default:
				t.Errorf("%s: node %d has told, and nobody was woken", what, i)
			}
		}
	}
}

// TestWatchAfterARelease: a release that another watcher of the process has heard
// of is noticed by one that comes later and has not.
func TestWatchAfterARelease(t *testing.T) {
	servers := testenv.Redis(t, 3)
	a, b := locker(t, clientsOf(servers), Config{Unguarded: true}), locker(t, clientsOf(servers), Config{Unguarded: true})
	h := take(t, a, "x")
	first, stop := b.Watch("x")
	defer stop()
	must(t, asked(b, "x"))
	for len(first) > 0 { // of the node that was spared
		<-first
	}
	must(t, h.Release(t.Context()))
	expectHint(t, first, true)
	second, stop := b.Watch("x")
	defer stop()
	expectHint(t, second, true)
}

// TestWatchIsNotForgotten: a node forgets after a while that it was asked, and a
// watcher may wait for longer.
func TestWatchIsNotForgotten(t *testing.T) {
	t.Parallel()
	servers := testenv.Redis(t, 3)
	a, b := locker(t, clientsOf(servers), Config{Unguarded: true}), locker(t, clientsOf(servers), Config{Unguarded: true})
	h := take(t, a, "x")
	hint, stop := b.Watch("x")
	defer stop()
	must(t, asked(b, "x"))
	key := askedKey(b.key("x"))
	for _, s := range servers {
		must(t, s.Client().Del(t.Context(), key).Err())
	}
	eventually(t, askFor, func() error {
		for _, s := range servers {
			if n := s.Client().SCard(t.Context(), key).Val(); n != 1 {
				return errUnexpected
			}
		}
		return nil
	})
	must(t, h.Release(t.Context()))
	expectHint(t, hint, true)
}

// TestHostileHints: anybody who may publish may publish anything.
func TestHostileHints(t *testing.T) {
	servers := testenv.Redis(t, 3)
	a, b := locker(t, clientsOf(servers), Config{Unguarded: true}), locker(t, clientsOf(servers), Config{Unguarded: true})
	h := take(t, a, "x")
	hint, stop := b.WatchOnce("x", refusedBy(t, b, "x"))
	defer stop()
	askedAt(t, b, "x")
	for _, payload := range []string{"", "x", newToken(), newToken() + "\x00\xff", newToken() + "another"} {
		for _, s := range servers {
			must(t, s.Client().Publish(t.Context(), b.subscriber.channel, payload).Err())
		}
	}
	expectHint(t, hint, false)
	must(t, h.Release(t.Context()))
	expectHint(t, hint, true)
}
