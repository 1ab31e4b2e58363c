package sim

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redfence/redfence/lock"
)

// A node is a Redis master, as far as an engine uses one: a few commands, and
// the engine's own scripts, each told by its text and done in Go. That the
// scripts do what their headers say is tested on real servers.
type node struct {
	mu      sync.Mutex
	values  map[string]value
	scripts map[string]string // names by hash, of those that were sent in full
	subs    map[string]map[*conn]bool
	asked   map[string]map[string]bool // channels by the key that keeps them
	conns   map[*conn]bool
}

type value struct {
	text  string
	until time.Time
}

func newNode() *node {
	return &node{
		values: map[string]value{}, scripts: map[string]string{},
		subs: map[string]map[*conn]bool{}, asked: map[string]map[string]bool{}, conns: map[*conn]bool{},
	}
}

// scriptNames are the names of the engine's scripts by their texts.
var scriptNames = sync.OnceValue(func() map[string]string {
	names := map[string]string{}
	for _, s := range lock.Scripts() {
		names[s.Source()] = s.Name
	}
	put, err := os.ReadFile("../../cache/scripts/put.lua")
	if err != nil {
		panic(err)
	}
	names[string(put)] = "put"
	return names
})

// empty is a restart without data: what was there is gone, and so are the
// connections.
func (n *node) empty() {
	n.mu.Lock()
	clear(n.values)
	clear(n.scripts)
	clear(n.asked)
	n.mu.Unlock()
	n.hangUp()
}

// hangUp resets every connection.
func (n *node) hangUp() {
	n.mu.Lock()
	var all []*conn
	for c := range n.conns {
		all = append(all, c)
	}
	n.mu.Unlock()
	for _, c := range all {
		c.reset()
	}
}

func (n *node) forget(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.conns, c)
	for _, subs := range n.subs {
		delete(subs, c)
	}
}

// run executes one command of a connection and returns the reply, encoded.
func (n *node) run(c *conn, args []string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch strings.ToLower(args[0]) {
	case "ping":
		return "+PONG\r\n"
	case "client":
		return "+OK\r\n"
	case "set":
		return n.set(args[1], args[2], args[4], len(args) > 5)
	case "getrange":
		text, _ := n.get(args[1])
		return bulk(text)
	case "get":
		if text, ok := n.get(args[1]); ok {
			return bulk(text)
		}
		return none
	case "info":
		return bulk("used_memory:1\r\nmaxmemory:0\r\n")
	case "eval":
		sum := sha1.Sum([]byte(args[1]))
		n.scripts[hex.EncodeToString(sum[:])] = scriptNames()[args[1]]
		return n.call(scriptNames()[args[1]], args[2:])
	case "evalsha":
		if name, ok := n.scripts[args[1]]; ok {
			return n.call(name, args[2:])
		}
		return "-NOSCRIPT No matching script\r\n"
	case "subscribe", "unsubscribe":
		return n.subscribe(c, strings.ToLower(args[0]), args[1:])
	}
	return "-ERR unknown command\r\n"
}

const none = "$-1\r\n"

func bulk(s string) string    { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
func integer(i int) string    { return fmt.Sprintf(":%d\r\n", i) }
func list(s ...string) string { return fmt.Sprintf("*%d\r\n%s", len(s), strings.Join(s, "")) }

func (n *node) get(key string) (string, bool) {
	v, ok := n.values[key]
	if !ok || !time.Now().Before(v.until) {
		delete(n.values, key)
		return "", false
	}
	return v.text, true
}

func (n *node) set(key, text, ms string, onlyNew bool) string {
	if _, there := n.get(key); there && onlyNew {
		return none
	}
	ttl, err := strconv.Atoi(ms)
	if err != nil {
		return "-ERR value is not an integer\r\n"
	}
	n.values[key] = value{text, time.Now().Add(time.Duration(ttl) * time.Millisecond)}
	return "+OK\r\n"
}

const tokenSize = 32 // of a lock's value

// call runs a script: the number of its keys, the keys, the rest.
func (n *node) call(name string, args []string) string {
	keys, err := strconv.Atoi(args[0])
	if err != nil || keys < 1 || keys > len(args)-1 {
		return "-ERR value is not an integer\r\n"
	}
	return n.script(name, args[1:1+keys], args[1+keys:])
}

func (n *node) script(name string, keys, argv []string) string {
	key := keys[0]
	held, there := n.get(key)
	if name == "ask" {
		return n.ask(keys[1], argv[0], there)
	}
	mine := there && name != "put" && held[:tokenSize] == argv[0][:tokenSize]
	switch {
	case name == "put":
		if there && held[3:11] > argv[0][3:11] { // fences, big endian
			return integer(0)
		}
		n.set(key, argv[0], argv[1], false)
		return integer(1)
	case there && !mine && name == "acquire":
		return list(bulk(held), integer(int(time.Until(n.values[key].until).Milliseconds())))
	case there && !mine:
		return integer(-1)
	case name == "release" && mine:
		delete(n.values, key)
		n.tell(keys[1], argv[0]+key)
		return integer(1)
	case name == "release", name == "extend" && !there:
		return integer(0)
	case name == "acquire":
		n.set(key, argv[0], argv[1], false)
		return bulk("0")
	case name == "extend", name == "seed":
		n.set(key, argv[0], argv[1], false)
		return integer(1)
	}
	return "-ERR unknown script\r\n"
}

// ask keeps a channel that is to be told. It is not forgotten by time.
func (n *node) ask(key, channel string, held bool) string {
	if n.asked[key] == nil {
		n.asked[key] = map[string]bool{}
	}
	n.asked[key][channel] = true
	if held {
		return integer(1)
	}
	return integer(0)
}

func (n *node) tell(key, text string) {
	for channel := range n.asked[key] {
		for c := range n.subs[channel] {
			c.push(list(bulk("message"), bulk(channel), bulk(text)))
		}
	}
	delete(n.asked, key)
}

func (n *node) subscribe(c *conn, kind string, channels []string) string {
	var replies strings.Builder
	for _, channel := range channels {
		if n.subs[channel] == nil {
			n.subs[channel] = map[*conn]bool{}
		}
		if kind == "subscribe" {
			n.subs[channel][c] = true
		} else {
			delete(n.subs[channel], c)
		}
		replies.WriteString(list(bulk(kind), bulk(channel), integer(1)))
	}
	return replies.String()
}
