package lock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/node"
)

// subscriber hears the releases of the locks that somebody of this process
// waits for. It asks the nodes to be told of the next release of each, and they
// tell it on a channel that is this process's own: one connection per node, made
// when the first waiter comes. What it tells is a hint and can be missed; waiters
// poll as well.
type subscriber struct {
	nodes   []*node.Node
	quorum  int
	channel string

	mu     sync.Mutex
	topics map[string]*topic // by the lock's key
	links  []*redis.PubSub   // nil until the first waiter
	up     uint64            // nodes that have confirmed the subscription
	closed bool
	done   sync.WaitGroup
}

// askFor is how long a node remembers that it was asked. Those who wait for
// longer ask anew twice as often.
const askFor = 10 * time.Second

func newSubscriber(nodes []*node.Node, channel string) *subscriber {
	return &subscriber{nodes: nodes, quorum: len(nodes)/2 + 1, channel: channel, topics: map[string]*topic{}}
}

// watch returns a channel of capacity 1 that is signalled when a majority has
// told of a release, when it turns out that a majority has no such lock, and
// after a node had to be subscribed to anew. stop ends it.
func (s *subscriber) watch(key string) (signal <-chan struct{}, stop func()) {
	return s.add(key, func(t *topic) uint64 {
		t.lasting++
		t.free = 0
		return s.up // also who was asked before: that may have been told already
	}, func(t *topic) { t.lasting-- })
}

// next is watch for a caller that looks elsewhere than at the lock: one node is
// asked, and tells of one release, or that it has no such lock.
func (s *subscriber) next(key string, at int) (signal <-chan struct{}, stop func()) {
	return s.add(key, func(t *topic) uint64 {
		if t.asked != 0 {
			return 0
		}
		t.from = at
		return s.up & (1 << at)
	}, func(*topic) {})
}

// add adds a watcher to the key's topic. asks says which nodes are to be asked
// for it, leave undoes what asks has done. Both are called with s.mu held.
func (s *subscriber) add(key string, asks func(*topic) uint64, leave func(*topic)) (signal <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return c, func() {}
	}
	s.start()
	t := s.topics[key]
	if t == nil {
		t = &topic{s: s, key: key}
		s.topics[key] = t
	}
	t.watchers = append(t.watchers, c)
	list := t.ask(asks(t), true)
	s.mu.Unlock()
	send(list)
	return c, sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		leave(t)
		s.remove(t, c)
	})
}

// remove takes a watcher out. What the nodes were asked for they forget by
// themselves. s.mu is held.
func (s *subscriber) remove(t *topic, c chan struct{}) {
	t.watchers = slices.DeleteFunc(t.watchers, func(w chan struct{}) bool { return w == c })
	if len(t.watchers) == 0 && s.topics[t.key] == t {
		delete(s.topics, t.key)
	}
}

// start makes the links. s.mu is held.
func (s *subscriber) start() {
	if s.links != nil {
		return
	}
	for i, n := range s.nodes {
		l := n.Client().Subscribe(context.Background())
		s.links = append(s.links, l)
		messages := l.ChannelWithSubscriptions()
		s.done.Go(func() { s.listen(i, l, messages) })
	}
	time.AfterFunc(askFor/2, s.renew)
}

// renew asks once more for all who go on waiting: a node has forgotten, or has
// failed to answer, before it tells.
func (s *subscriber) renew() {
	var list []*ask
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	for _, t := range s.topics {
		if t.lasting > 0 {
			list = append(list, t.ask(s.up, false)...)
		}
	}
	s.mu.Unlock()
	send(list)
	time.AfterFunc(askFor/2, s.renew)
}

// listen may block on a node that hangs, and then holds up nobody else.
func (s *subscriber) listen(i int, l *redis.PubSub, messages <-chan any) {
	// An error is not final: go-redis remembers the channel and subscribes to
	// it with the next connection.
	_ = l.Subscribe(context.Background(), s.channel)
	for m := range messages {
		switch m := m.(type) {
		case *redis.Subscription:
			s.subscribed(i)
		case *redis.Message:
			if len(m.Payload) > tokenSize {
				s.released(i, m.Payload[tokenSize:], m.Payload[:tokenSize])
			}
		}
	}
}

// subscribed asks the node for all that is waited for. What it was asked for
// before may have been told to nobody.
func (s *subscriber) subscribed(i int) {
	bit := uint64(1) << i
	var list []*ask
	s.mu.Lock()
	s.up |= bit
	for _, t := range s.topics {
		if t.asked&bit != 0 {
			t.signal()
		}
		if t.lasting > 0 || t.asked&^bit == 0 && t.from == i {
			list = append(list, t.ask(bit, true)...)
		}
	}
	s.mu.Unlock()
	send(list)
}

func (s *subscriber) released(i int, key, token string) {
	s.mu.Lock()
	var list []*ask
	if t := s.topics[key]; t != nil {
		list = t.released(i, token)
	}
	s.mu.Unlock()
	send(list)
}

// close ends the links and waits for their goroutines, but not for longer than
// d: those of a node that hangs end with the deadlines of its client.
func (s *subscriber) close(d time.Duration) {
	s.mu.Lock()
	links := s.links
	s.links, s.closed = nil, true
	s.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		var all sync.WaitGroup
		for _, l := range links {
			all.Go(func() { _ = l.Close() }) // nobody can act on it
		}
		all.Wait()
		s.done.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(d):
	}
}
