package node

import (
	"context"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// connect makes sure of a connection of the node's own, greeted and with the
// scripts loaded. Clients that give none away use their pool.
func (n *Node) connect(ctx context.Context) error {
	client, ok := n.client.(*redis.Client)
	if n.conn != nil || !ok {
		return nil
	}
	n.conn = client.EphemeralConn()
	err := n.greet(ctx)
	if err != nil {
		n.hangUp()
	}
	return err
}

func (n *Node) greet(ctx context.Context) error {
	pipe := n.conn.Pipeline()
	ping := pipe.Ping(ctx)
	for _, s := range n.cfg.Scripts {
		pipe.ScriptLoad(ctx, s.src)
	}
	// A server that refuses SCRIPT LOAD (ACL) answers all the same; the
	// scripts are then sent in full.
	if _, err := pipe.Exec(ctx); err != nil && !Answered(err) {
		return err
	}
	if err := ping.Err(); err != nil {
		return err
	}
	if n.cfg.Hello == nil {
		return nil
	}
	return n.cfg.Hello(ctx, n, n.conn)
}

// hangUp discards the connection: after any failure, answers to earlier
// commands could still arrive on it, and the server behind it may be another.
func (n *Node) hangUp() {
	if n.conn == nil {
		return
	}
	_ = n.conn.Close() // nobody can act on it
	n.conn = nil
}

// isLocal tells a client whose own pool is exhausted.
func isLocal(err error) bool {
	return errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.Is(err, context.DeadlineExceeded) || (errors.As(err, &t) && t.Timeout())
}
