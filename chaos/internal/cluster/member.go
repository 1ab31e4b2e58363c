package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redfence/redfence/chaos/internal/proxy"
	"github.com/redfence/redfence/internal/servers"
)

// MemberOptions say how to start one engine instance.
type MemberOptions struct {
	// Binary is what Build has made.
	Binary string
	// Name is what the recorder and the ledger know it by.
	Name string
	// Dir takes its log.
	Dir string
	// Recorder is the URL of the effect recorder.
	Recorder string
	// Mutant is the rule that it breaks on purpose. Empty: none.
	Mutant string
	// Failpoints are rules of package failpoint. Empty: none.
	Failpoints string
	// Bias makes seldom things frequent: rules of package failpoint. Empty: none.
	Bias string
	// Args are further arguments of the instance.
	Args []string
	// Nodes are the Redis nodes that it knows, by number. Empty: all.
	Nodes []int
	// Listen is its host:port. Empty: a free one.
	Listen string
}

// at is the options with an address.
func (o MemberOptions) at(address string) MemberOptions {
	o.Listen = address
	return o
}

// knowing is the options with other nodes. A stand-alone lock asks that all
// lockers know the same ones, so it is served only by those that know all.
func (o MemberOptions) knowing(nodes []int) MemberOptions {
	o.Nodes = nodes
	o.Args = slices.DeleteFunc(slices.Clone(o.Args), func(arg string) bool { return arg == "-redlock" })
	if len(nodes) == 0 {
		o.Args = append(o.Args, "-redlock")
	}
	return o
}

// link returns the link to a node; nil when the member does not know it.
func (m *Member) link(node int) *proxy.Link {
	if len(m.options.Nodes) == 0 {
		return m.Redis[node]
	}
	if i := slices.Index(m.options.Nodes, node); i >= 0 {
		return m.Redis[i]
	}
	return nil
}

// Member is a running engine instance and its links.
type Member struct {
	Program *servers.Program
	// Redis are its links to the nodes that it knows, in order.
	Redis []*proxy.Link
	// Postgres is its link to the ledger.
	Postgres *proxy.Link

	options MemberOptions
	url     string
	hits    string // file with a line for each action at a failpoint
}

const (
	startLimit = 30 * time.Second
	stopLimit  = 15 * time.Second
)

// StartMember starts an engine instance over the stores and waits until it
// serves. An error means that nothing of it is left.
func StartMember(ctx context.Context, stores *Stores, o MemberOptions) (*Member, error) {
	m := &Member{options: o, hits: filepath.Join(o.Dir, "hits")}
	err := m.start(ctx, stores, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("chaos: %s: %w", o.Name, err), m.Kill())
	}
	return m, nil
}

func (m *Member) start(ctx context.Context, stores *Stores, o MemberOptions) error {
	redisURLs, err := m.linkRedis(stores, o.Nodes)
	if err != nil {
		return err
	}
	databaseURL, err := m.linkPostgres(stores)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return err
	}
	address := filepath.Join(o.Dir, "address")
	if err := os.RemoveAll(address); err != nil { // of the process before
		return err
	}
	m.Program, err = servers.StartProgram(servers.ProgramOptions{
		Path: o.Binary, Dir: o.Dir, Log: filepath.Join(o.Dir, "log"),
		Args: append([]string{"-name", o.Name, "-recorder", o.Recorder, "-address-file", address, "-listen", o.Listen}, o.Args...),
		Env: []string{
			"REDIS_URL=" + strings.Join(redisURLs, ","), "DATABASE_URL=" + databaseURL,
			"REDFENCE_MUTANT=" + o.Mutant, "REDFENCE_FAILPOINTS=" + o.Failpoints, "REDFENCE_FAILPOINT_LOG=" + m.hits,
			"REDFENCE_BIAS=" + o.Bias,
		},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return m.Program.Ready(ctx, func(context.Context) error {
		text, err := os.ReadFile(address)
		m.url = "http://" + string(text)
		return err
	})
}

func (m *Member) linkRedis(stores *Stores, nodes []int) ([]string, error) {
	if len(nodes) == 0 {
		for i := range stores.Redis {
			nodes = append(nodes, i)
		}
	}
	urls := make([]string, len(nodes))
	for i, node := range nodes {
		link, err := proxy.New(stores.Redis[node].Addr())
		if err != nil {
			return nil, err
		}
		m.Redis = append(m.Redis, link)
		urls[i] = "redis://" + link.Addr()
	}
	return urls, nil
}

func (m *Member) linkPostgres(stores *Stores) (database string, err error) {
	if m.Postgres, err = proxy.New(stores.Postgres.Addr()); err != nil {
		return "", err
	}
	direct, err := stores.instanceURL()
	return strings.Replace(direct, stores.Postgres.Addr(), m.Postgres.Addr(), 1), err
}

// URL is the base URL of the instance.
func (m *Member) URL() string { return m.url }

func (m *Member) address() string { return strings.TrimPrefix(m.url, "http://") }

// Hits counts the actions done at the failpoint.
func (m *Member) Hits(point string) (n int) {
	text, _ := os.ReadFile(m.hits) // no file: no action yet
	for line := range strings.Lines(string(text)) {
		if line == point+"\n" {
			n++
		}
	}
	return n
}

// Stop lets the instance drain, and kills it if it does not.
func (m *Member) Stop() error {
	return errors.Join(m.Program.Stop(stopLimit), m.closeLinks())
}

// Kill ends the instance at once. It may be gone already.
func (m *Member) Kill() error {
	var failed error
	if m.Program != nil {
		failed = m.Program.Close()
	}
	return errors.Join(failed, m.closeLinks())
}

func (m *Member) closeLinks() error {
	var failed error
	for _, link := range m.Redis {
		failed = errors.Join(failed, link.Close())
	}
	if m.Postgres != nil {
		failed = errors.Join(failed, m.Postgres.Close())
	}
	return failed
}
