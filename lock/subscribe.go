package lock

import (
	"context"
	"math/bits"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/node"
)

// subscriber hears the releases of the locks that somebody of this process
// waits for: one connection per node, made when the first waiter comes. What
// it tells is a hint and can be missed; waiters poll as well.
type subscriber struct {
	nodes  []*node.Node
	quorum int

	mu     sync.Mutex
	topics map[string]*topic
	links  []*link // nil until the first waiter
	closed bool
	done   sync.WaitGroup
}

// topic is one lock that is waited for.
type topic struct {
	watchers map[chan struct{}]struct{}
	acked    uint64            // nodes that confirmed the subscription
	heard    map[string]uint64 // token released → nodes that said so
}

// link is the connection to one node and what it is to be told.
type link struct {
	pubsub *redis.PubSub
	index  int
	wake   chan struct{}

	mu      sync.Mutex
	pending []change
}

type change struct {
	channel   string
	subscribe bool
}

const rememberTokens = 16

func newSubscriber(nodes []*node.Node) *subscriber {
	return &subscriber{nodes: nodes, quorum: len(nodes)/2 + 1, topics: map[string]*topic{}}
}

// watch returns a channel of capacity 1 that is signalled when a majority has
// told of a release, and after each (re)subscription. stop ends it.
func (s *subscriber) watch(channel string) (signal <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return c, func() {}
	}
	s.start()
	t := s.topics[channel]
	if t == nil {
		t = &topic{watchers: map[chan struct{}]struct{}{}, heard: map[string]uint64{}}
		s.topics[channel] = t
		s.tell(change{channel, true})
	}
	t.watchers[c] = struct{}{}
	if bits.OnesCount64(t.acked) >= s.quorum {
		c <- struct{}{} // subscribed already: look again now
	}
	var once sync.Once
	return c, func() { once.Do(func() { s.unwatch(channel, t, c) }) }
}

func (s *subscriber) unwatch(channel string, t *topic, c chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(t.watchers, c)
	if len(t.watchers) == 0 && s.topics[channel] == t {
		delete(s.topics, channel)
		s.tell(change{channel, false})
	}
}

// start makes the links. s.mu is held.
func (s *subscriber) start() {
	if s.links != nil {
		return
	}
	for i, n := range s.nodes {
		l := &link{pubsub: n.Client().Subscribe(context.Background()), index: i, wake: make(chan struct{}, 1)}
		s.links = append(s.links, l)
		messages := l.pubsub.ChannelWithSubscriptions()
		s.done.Go(func() { s.listen(l, messages) })
		s.done.Go(l.talk)
	}
}

// tell queues a change for every link. s.mu is held.
func (s *subscriber) tell(c change) {
	if s.closed {
		return
	}
	for _, l := range s.links {
		l.mu.Lock()
		l.pending = append(l.pending, c)
		l.mu.Unlock()
		signal(l.wake)
	}
}

// talk sends subscriptions. It may block on a node that hangs, and then holds
// up nobody else.
func (l *link) talk() {
	for range l.wake {
		l.mu.Lock()
		pending := l.pending
		l.pending = nil
		l.mu.Unlock()
		for _, c := range pending {
			// An error is not final: go-redis remembers the channel and
			// subscribes to it with the next connection.
			if c.subscribe {
				_ = l.pubsub.Subscribe(context.Background(), c.channel)
			} else {
				_ = l.pubsub.Unsubscribe(context.Background(), c.channel)
			}
		}
	}
}

func (s *subscriber) listen(l *link, messages <-chan any) {
	for m := range messages {
		switch m := m.(type) {
		case *redis.Subscription:
			if m.Kind == "subscribe" {
				s.subscribed(l.index, m.Channel)
			}
		case *redis.Message:
			s.released(l.index, m.Channel, m.Payload)
		}
	}
}

// subscribed signals when a majority listens, and again whenever a node does
// so anew: a release may have been missed before.
func (s *subscriber) subscribed(index int, channel string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.topics[channel]; t != nil {
		t.acked |= 1 << index
		if bits.OnesCount64(t.acked) >= s.quorum {
			t.signal()
		}
	}
}

// released signals when a majority, or all nodes that are listened to, have
// told of the same release: sooner, a try would find the lock half released.
func (s *subscriber) released(index int, channel, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.topics[channel]
	if t == nil {
		return
	}
	if len(t.heard) >= rememberTokens {
		clear(t.heard)
	}
	t.acked |= 1 << index
	t.heard[token] |= 1 << index
	if bits.OnesCount64(t.heard[token]) == min(s.quorum, bits.OnesCount64(t.acked)) {
		t.signal()
	}
}

func (t *topic) signal() {
	for c := range t.watchers {
		signal(c)
	}
}

// signal wakes whoever reads c, once.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
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
			close(l.wake)
			all.Go(func() { _ = l.pubsub.Close() }) // nobody can act on it
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
