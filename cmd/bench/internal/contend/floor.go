package contend

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/lock"
)

// RawDo is the floor of Do: the commands and statements that our engine sends
// for one request, through the same shared pipelines and batches, with no engine
// around them.
var RawDo = DoContender{
	Name:    "raw",
	Options: "GET at one node; for a miss SET NX on a majority, the ledger's claim and completion, SET and scripted delete on the same nodes, unawaited; the engine's pipelines and batches without its algorithm, fingerprint or tag",
	Open:    openRawDo,
}

// deleteOnNode is deleteScript for a shared pipeline.
var deleteOnNode = node.NewScript("raw delete", `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end`)

type rawDo struct {
	clients []redis.UniversalClient
	set     *node.Set
	pool    *pgxpool.Pool
	ledger  *fallback.Postgres
	policy  fallback.Policy
}

func openRawDo(ctx context.Context, s Servers) (Doer, error) {
	pool, err := openPool(ctx, s.Postgres, 16)
	if err != nil {
		return nil, err
	}
	d := &rawDo{pool: pool, policy: fallback.Policy{
		Lease: leaseTime, MaxProcessing: time.Minute, MaxAttempts: 1, Retention: 24 * time.Hour,
	}}
	if d.ledger, err = fallback.Open(ctx, pool, fallback.Config{Migrate: true}); err != nil {
		pool.Close()
		return nil, fmt.Errorf("raw: open the ledger: %w", err)
	}
	d.clients, err = lock.Dial(s.Redis...)
	if err == nil {
		d.set, err = node.NewSet(d.clients, node.Config{Timeout: node.DefaultTimeout, Scripts: []*node.Script{deleteOnNode}})
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Do implements Doer.
func (d *rawDo) Do(ctx context.Context, id string, work Work) ([]byte, bool, error) {
	key := fallback.Key{Namespace: "raw", ID: id}
	digest := key.Digest()
	name := digest.String()
	nodes := d.majority(name)
	found, err := nodes[0].Do(ctx, "get", "raw:"+name)
	if text, ok := found.(string); ok || err != nil {
		return []byte(text), true, err
	}
	token := fallback.NewToken()
	if err := d.lock(nodes, name, token); err != nil {
		return nil, false, err
	}
	defer sendAll(nodes, deleteOnNode, deleteOnNode.Command([]string{"raw:lock:" + name}, token[:]))
	sum := sha256.Sum256([]byte(id))
	v, err := d.ledger.Claim(ctx, fallback.ClaimRequest{
		Key: key, Digest: digest, Token: token, Owner: "raw", Policy: d.policy,
		Fingerprint: fallback.Fingerprint{Version: 1, Sum: sum[:]},
	})
	if err != nil {
		return nil, false, err
	}
	if v.Granted == nil {
		return nil, false, errBusy
	}
	response, err := work()
	if err != nil {
		return nil, false, err
	}
	ref := fallback.Ref{Digest: digest, Token: token, Fence: v.Granted.Fence}
	if _, err = d.ledger.Complete(ctx, fallback.Completion{Ref: ref, Status: 200, Response: response}); err != nil {
		return nil, false, err
	}
	sendAll(nodes, nil, []any{"set", "raw:" + name, response, "px", time.Hour.Milliseconds(), "nx"})
	return response, false, nil
}

// majority are the nodes that a name belongs to.
func (d *rawDo) majority(name string) []*node.Node {
	all := d.set.Nodes()
	home := node.Home(name, len(all))
	nodes := make([]*node.Node, len(all)/2+1)
	for i := range nodes {
		nodes[i] = all[(home+i)%len(all)]
	}
	return nodes
}

// lock takes the name on each of the nodes.
func (d *rawDo) lock(nodes []*node.Node, name string, token fallback.Token) error {
	answers := make(votes, len(nodes))
	args := []any{"set", "raw:lock:" + name, token[:], "nx", "px", leaseTime.Milliseconds()}
	ops := make([]node.Op, len(nodes))
	for i, n := range nodes {
		ops[i] = node.Op{Args: args, To: answers}
		n.Send(&ops[i])
	}
	for range nodes {
		if err := <-answers; err != nil {
			return err
		}
	}
	return nil
}

// votes are the nodes' answers to SET NX.
type votes chan error

func (v votes) Reply(_ *node.Op, value any, err error) {
	if err == nil && value == nil {
		err = errBusy
	}
	v <- err
}

// sendAll sends one command to each of the nodes and waits for nothing.
func sendAll(nodes []*node.Node, script *node.Script, args []any) {
	ops := make([]node.Op, len(nodes))
	for i, n := range nodes {
		ops[i].Args, ops[i].Script, ops[i].To = args, script, unheard{}
		n.Send(&ops[i])
	}
}

// unheard takes answers that nobody waits for.
type unheard struct{}

func (unheard) Reply(*node.Op, any, error) {}

// Close implements Doer.
func (d *rawDo) Close() error {
	if d.set != nil {
		d.set.Close()
	}
	err := errors.Join(d.ledger.Close(), closeAll(d.clients))
	d.pool.Close()
	return err
}
