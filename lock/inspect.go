package lock

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/observe"
)

// State is what the nodes say about one name.
type State struct {
	Name string
	// Held: a majority names the same holder.
	Held bool
	// Owner is the holder that most nodes name, by its Config.Owner. Empty:
	// no node names one.
	Owner string
	// Fence is the holder's, as its renewals leave it at the nodes; 0 before
	// the first renewal.
	Fence int64
	// Remaining is the longest TTL that a node gives for that holder.
	Remaining time.Duration
	// Votes are the nodes' answers, in the order of the clients.
	Votes []Vote

	token string
}

// Vote is what one node says about one name.
type Vote struct {
	// Node is the node's address.
	Node string
	// Owner holds the lock there; empty: nobody.
	Owner     string
	Fence     int64
	Remaining time.Duration
	// Err is why the node did not answer.
	Err error

	token string
}

// Inspect asks every node who holds name. It fails with ErrNoQuorum when fewer
// than a majority answer; the State then holds what was heard.
func (r *Redlock) Inspect(ctx context.Context, name string) (State, error) {
	s := State{Name: name, Votes: make([]Vote, len(r.nodes))}
	var all sync.WaitGroup
	for i, n := range r.nodes {
		all.Go(func() { s.Votes[i] = r.inspect(ctx, n, name) })
	}
	all.Wait()
	answered := s.count()
	if answered < r.set.Quorum() {
		return s, &Error{Op: "inspect", Name: name, Reason: ErrNoQuorum, Nodes: s.silent(), Ctx: ctx.Err()}
	}
	return s, nil
}

func (r *Redlock) inspect(ctx context.Context, n *node.Node, name string) Vote {
	v := Vote{Node: n.Addr()}
	answer, err := n.Eval(ctx, inspectScript, []string{r.key(name)})
	if err != nil {
		v.Err = err
		return v
	}
	list, ok := answer.([]any)
	if ok && len(list) == 0 {
		return v
	}
	if len(list) != 2 {
		v.Err = errUnexpected
		return v
	}
	value, _ := list[0].(string)
	ms, _ := list[1].(int64)
	v.token, v.Owner, v.Fence = parseValue(value)
	v.Remaining = time.Duration(ms) * time.Millisecond
	return v
}

// count fills in the holder that most nodes name and returns how many nodes
// answered.
func (s *State) count() (answered int) {
	holders := map[string]int{}
	for _, v := range s.Votes {
		if v.Err == nil {
			answered++
		}
		if v.token != "" {
			holders[v.token]++
		}
	}
	for token, n := range holders {
		if n > holders[s.token] || (n == holders[s.token] && token < s.token) {
			s.token = token
		}
	}
	for _, v := range s.Votes {
		if v.token != "" && v.token == s.token {
			s.Owner = v.Owner
			s.Fence = max(s.Fence, v.Fence)
			s.Remaining = max(s.Remaining, v.Remaining)
		}
	}
	s.Held = holders[s.token] > len(s.Votes)/2
	return answered
}

func (s *State) silent() []NodeError {
	var list []NodeError
	for i, v := range s.Votes {
		if v.Err != nil {
			list = append(list, NodeError{Node: v.Node, Index: i, Err: v.Err})
		}
	}
	return list
}

// Break takes a lock away from whoever holds it, as most nodes see it, and
// returns who that was. by says for the audit (event LockBroken) who did it.
// It is for a holder that is known to be gone: one that is alive finds out at
// its next renewal and works on until then. A holder that comes between is left
// alone. The error is ErrNotHeld when no node names a holder.
func (r *Redlock) Break(ctx context.Context, name, by string) (State, error) {
	s, err := r.Inspect(ctx, name)
	if err != nil {
		return s, err
	}
	if s.token == "" {
		return s, &Error{Op: "break", Name: name, Reason: ErrNotHeld}
	}
	c := r.newCall(opRelease, readRelease)
	c.command(releaseScript, releaseCommand(r.key(name), s.token))
	err = c.decide(ctx, r.cfg.NodeTimeout)
	r.cfg.Observer.Observe(observe.LockBroken{
		Lock: refOf(name), Owner: s.Owner, Fence: s.Fence, By: by, Confirmed: err == nil})
	if err != nil {
		return s, failure("break", name, c, ctx.Err())
	}
	return s, nil
}

func refOf(name string) observe.Ref {
	sum := sha256.Sum256([]byte(name))
	return observe.RefOf(sum[:])
}

// A Page is a part of a list of locks.
type Page struct {
	// Names are locks that at least one node knows. A name may occur again
	// on a later page.
	Names []string
	// Next is the cursor of the next page; empty: this was the last.
	Next string
	// Skipped are nodes that did not answer; locks that only they know are
	// missing.
	Skipped []NodeError
}

const (
	listDefault = 100
	listMost    = 10_000
)

// List returns the names of locks that are held or half held, about limit at a
// time (0: 100); cursor is empty for the first page, then the Next of the page
// before. It walks the nodes' keyspaces with SCAN, which costs time in
// proportion to all of their keys, but never holds a node up.
func (r *Redlock) List(ctx context.Context, cursor string, limit int) (Page, error) {
	if limit == 0 {
		limit = listDefault
	}
	i, at, err := parseCursor(cursor)
	if err != nil || limit < 0 || limit > listMost || i > len(r.nodes) {
		return Page{}, fmt.Errorf("lock: list: cursor %q, limit %d: start with an empty cursor, ask for at most %d", capped(cursor), limit, listMost)
	}
	var page Page
	for i < len(r.nodes) && len(page.Names) < limit {
		if err := ctx.Err(); err != nil {
			return page, err
		}
		names, next, err := r.scan(ctx, r.nodes[i], at, limit)
		if err != nil {
			page.Skipped = append(page.Skipped, NodeError{Node: r.nodes[i].Addr(), Index: i, Err: err})
			next = 0
		}
		page.Names = append(page.Names, names...)
		at = next
		if at == 0 {
			i++
		}
	}
	slices.Sort(page.Names)
	page.Names = slices.Compact(page.Names)
	if i < len(r.nodes) {
		page.Next = fmt.Sprintf("%d:%d", i, at)
	}
	return page, nil
}

func (r *Redlock) scan(ctx context.Context, n *node.Node, at uint64, limit int) ([]string, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*r.cfg.NodeTimeout)
	defer cancel()
	keys, next, err := n.Client().Scan(ctx, at, globQuoted(r.cfg.Prefix)+"{*}:l", int64(limit)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, 0, err
	}
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = strings.TrimSuffix(strings.TrimPrefix(key, r.cfg.Prefix+"{"), "}:l")
	}
	return names, next, nil
}

// globQuoted quotes what has a meaning in a pattern of SCAN.
func globQuoted(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `^`, `\^`).Replace(s)
}

func parseCursor(cursor string) (i int, at uint64, err error) {
	if cursor == "" {
		return 0, 0, nil
	}
	first, second, _ := strings.Cut(cursor, ":")
	if i, err = strconv.Atoi(first); err != nil || i < 0 {
		return 0, 0, errors.New("not a cursor")
	}
	at, err = strconv.ParseUint(second, 10, 64)
	return i, at, err
}
