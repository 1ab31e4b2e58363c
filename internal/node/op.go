package node

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/failpoint"
)

var (
	// ErrDown: the node's breaker is open. The command was not sent.
	ErrDown = errors.New("node is down")
	// ErrOverloaded: too many commands of this process wait for the node, or
	// the client's pool is exhausted. The command was not sent.
	ErrOverloaded = errors.New("overloaded")
	// ErrDropped: too much waits until the node answers again (Node.Later), and
	// the oldest was given up.
	ErrDropped = errors.New("dropped: too much waits for the node")
	// ErrCancelled: the caller took the command back. It was not sent.
	ErrCancelled = errors.New("command cancelled before it was sent")
	// ErrClosed: the set was closed. The command was not sent.
	ErrClosed = errors.New("node set closed")
)

// Unsent says whether err proves that the command never left this process.
func Unsent(err error) bool {
	return errors.Is(err, ErrDown) || errors.Is(err, ErrOverloaded) || errors.Is(err, ErrDropped) ||
		errors.Is(err, ErrCancelled) || errors.Is(err, ErrClosed)
}

// Answered says whether err is an answer of the server (READONLY, OOM, …), as
// opposed to a failure to get one.
func Answered(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

// A Receiver takes the answer to a command.
type Receiver interface {
	// Reply is called once per Send, on the node's goroutine or, when the
	// command is refused at once, inside Send. It must be short and must not
	// block. A nil reply of the server is (nil, nil).
	Reply(op *Op, value any, err error)
}

// ReceiverFunc makes a Receiver of a function.
type ReceiverFunc func(op *Op, value any, err error)

// Reply calls f.
func (f ReceiverFunc) Reply(op *Op, value any, err error) { f(op, value, err) }

// A Peeker is a Receiver that wants to see its answer before any answer of the
// same pipeline is delivered. Peek must be short.
type Peeker interface{ Peek(op *Op, value any) }

// A Binder is a Receiver whose command depends on the connection. Bind is
// called before each time that the command is put on the wire, on the node's
// goroutine, after the Hello of the connection that it will use. It may change
// elements of op.Args. It must be short.
type Binder interface{ Bind(op *Op) }

// An Op is one command for one node. It must not be changed or sent again
// before its Receiver has been called.
type Op struct {
	// Args is the command, as Script.Command makes it or plain.
	Args []any
	// Script is the script that Args calls, if any.
	Script *Script
	// To receives the answer.
	To Receiver

	cmd    *redis.Cmd
	state  atomic.Uint32
	resent bool
	full   bool // the script's text has been sent
}

const (
	idle uint32 = iota
	queued
	sent
	cancelled
)

// Cancel takes a command back that is still queued; its Receiver then gets
// ErrCancelled some time later. False: it has been sent, or was answered.
func (op *Op) Cancel() bool { return op.state.CompareAndSwap(queued, cancelled) }

// Resent says, in Receiver.Reply, that the command may have been executed
// before: its connection broke under it and it was sent again.
func (op *Op) Resent() bool { return op.resent }

// A Script is a Lua script, called by its hash.
type Script struct {
	// Name is for errors.
	Name      string
	src, hash string
}

// NewScript returns the script of a source text.
func NewScript(name, src string) *Script {
	src = failpoint.Text("lua/"+name, src)
	sum := sha1.Sum([]byte(src))
	return &Script{Name: name, src: src, hash: hex.EncodeToString(sum[:])}
}

// Source returns the script's text.
func (s *Script) Source() string { return s.src }

// Command returns the command that calls the script.
func (s *Script) Command(keys []string, argv ...any) []any {
	args := make([]any, 0, 3+len(keys)+len(argv))
	args = append(args, "evalsha", s.hash, len(keys))
	for _, k := range keys {
		args = append(args, k)
	}
	return append(args, argv...)
}

// inFull returns the command with the script's text in place of its hash.
func (s *Script) inFull(args []any) []any {
	full := append([]any(nil), args...)
	full[0], full[1] = "eval", s.src
	return full
}
