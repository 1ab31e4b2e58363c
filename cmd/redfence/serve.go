package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/gateway"
	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/internal/problems"
	"github.com/redfence/redfence/observe"
	"github.com/redfence/redfence/redfenceprom"
)

type serveCommand struct {
	nodeFlags
	ledgerFlags
	Listen       string `default:"127.0.0.1:8080" help:"Address to listen on; a port of 0 takes a free one."`
	Upstream     string `placeholder:"URL" help:"The service behind the gateway."`
	Config       string `placeholder:"FILE" type:"path" help:"YAML file with routes, instead of --upstream and the flags of a route; see package gateway."`
	Demo         bool   `help:"Try it: a built-in service that logs each real execution, the webhook preset, and servers of its own where no URL is given."`
	DemoRecorder string `placeholder:"URL" help:"Recorder of a chaos run, to which the service of --demo reports each start."`
	EnvFile      string `placeholder:"FILE" help:"Write the addresses of the stores to this file, as assignments for a shell."`
	Migrate      bool   `help:"Create or upgrade the ledger's schema first (with --demo: always)."`

	Preset       string        `placeholder:"NAME" help:"ietf, stripe or webhook: how outcomes and duplicates are answered. Defaults to ietf, with --demo to webhook."`
	Methods      []string      `placeholder:"NAME" help:"Methods that are protected. Defaults to POST and PATCH."`
	Headers      []string      `placeholder:"NAME" help:"Headers that carry the key. Defaults to Idempotency-Key and X-Idempotency-Key."`
	RequireKey   bool          `help:"Refuse requests without a key."`
	ScopeHeader  string        `placeholder:"NAME" help:"Header that names the authenticated tenant or user; set by a proxy in front, see --trusted."`
	Trusted      []string      `placeholder:"CIDR" help:"Networks that the authenticating proxy connects from. Required with --scope-header."`
	Unscoped     bool          `help:"All callers are one: whoever knows a key gets its response."`
	Fingerprint  string        `placeholder:"KIND" help:"raw or json: what tells two requests with one key apart. Defaults to raw."`
	OnAbandoned  string        `placeholder:"WHAT" help:"hold or retry: what happens to a key whose process died. Defaults to the preset's."`
	Retention    time.Duration `placeholder:"TIME" help:"How long a response is kept. Defaults to 24h."`
	Lease        time.Duration `placeholder:"TIME" help:"How long a claim stays in force without renewal. Defaults to 10s."`
	Processing   time.Duration `name:"max-processing" placeholder:"TIME" help:"Longest time of one execution. Defaults to 5m."`
	Wait         time.Duration `placeholder:"TIME" help:"How long a duplicate waits for the one in flight. Defaults to not at all."`
	SecretFile   string        `placeholder:"FILE" help:"File with a secret of 16 bytes or more that keys fingerprints and cached records (or REDFENCE_SECRET)."`
	OtherNodes   string        `default:"warn" enum:"warn,refuse,move" help:"What to do when the ledger has recorded other Redis nodes than --redis: warn, refuse, or move, which records these."`
	DrainDelay   time.Duration `default:"0s" help:"After SIGTERM, how long requests are still let in while readyz says 503: as long as a load balancer takes to notice."`
	DrainTimeout time.Duration `default:"30s" help:"How long requests may take to end after SIGTERM."`
	Metrics      bool          `default:"true" negatable:"" help:"Serve metrics for Prometheus under /-/metrics."`
	LogLevel     slog.Level    `default:"info" help:"debug, info, warn or error; debug tells of every request."`
}

// Run serves until a signal ends it.
func (c serveCommand) Run(a *app) (err error) {
	var listener net.Listener
	if c.Demo {
		if listener, err = c.open(); err != nil { // before servers are started in vain
			return err
		}
		defer listener.Close()
		c.ownStores(a)
		started, err := startDemo(a.ctx, &c, a.stdout)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, started.close()) }()
	}
	s, err := c.prepare(a)
	if err != nil {
		return err
	}
	if listener == nil {
		if listener, err = c.open(); err != nil {
			return errors.Join(err, s.closeStores())
		}
	}
	return s.run(a, listener)
}

func (c *serveCommand) open() (net.Listener, error) {
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	return listener, nil
}

// ownStores keeps a demo away from the stores that the environment names: it
// migrates the schema and fills the tables.
func (c *serveCommand) ownStores(a *app) {
	drop := func(flag string, present bool) bool {
		_, given := a.given[flag]
		if present && !given {
			fmt.Fprintf(a.stderr, "redfence: --demo does not use the stores that the environment names; give --%s to use them\n", flag)
		}
		return !given
	}
	if drop("redis", len(c.Redis) > 0) {
		c.Redis = nil
	}
	if drop("database", c.Database != "") {
		c.Database = ""
	}
}

// route is the one route of this command.
func (c *serveCommand) route() gateway.Route {
	r := gateway.Route{
		Upstream: c.Upstream, Methods: c.Methods, Preset: c.Preset, Headers: c.Headers, RequireKey: c.RequireKey,
		Scope:     gateway.Scope{Unscoped: c.Unscoped, Header: c.ScopeHeader, Trusted: c.Trusted},
		Retention: c.Retention, Lease: c.Lease, MaxProcessing: c.Processing, Wait: c.Wait,
		OnAbandoned: c.OnAbandoned, Fingerprint: c.Fingerprint,
	}
	if c.Demo {
		r.Scope = gateway.Scope{Unscoped: c.ScopeHeader == "", Header: c.ScopeHeader, Trusted: c.Trusted}
		if r.Preset == "" {
			r.Preset = "webhook"
		}
	}
	return r
}

// served is what the file says, or the one route of the flags.
func (c *serveCommand) served(list *problems.List) gateway.File {
	one := c.route()
	if c.Config == "" {
		return gateway.File{Routes: []gateway.Route{one}}
	}
	if !reflect.DeepEqual(one, gateway.Route{}) {
		list.Add("--config: gives the routes; leave --upstream, --demo and the flags of a route out")
	}
	file, err := gateway.Load(c.Config)
	list.AddErr(err)
	return file
}

// secrets reads the secret; none is fine.
func (c *serveCommand) secrets(list *problems.List) []redfence.Secret {
	key := []byte(os.Getenv("REDFENCE_SECRET"))
	if c.SecretFile != "" {
		var err error
		if key, err = os.ReadFile(c.SecretFile); err != nil {
			list.Add("--secret-file: %w", err)
			return nil
		}
	}
	if len(key) == 0 {
		return nil
	}
	return []redfence.Secret{{ID: 1, Key: key}}
}

// prepare checks everything that can be checked, the ledger included, and
// reports all of it at once. Stores that merely do not answer are no problem
// of the configuration: serving begins, not ready, and they are tried again.
func (c *serveCommand) prepare(a *app) (*server, error) {
	var list problems.List
	log := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: c.LogLevel}))
	s := &server{command: c, later: new(laterEngine), log: log, counts: redfenceprom.New(), events: observe.NewFanout(0, observe.NewSlog(log))}
	s.nodes = c.clients(&list)
	s.pool = c.ledgerFlags.pool(a.ctx, &list)
	s.config = redfence.Config{Nodes: s.nodes.universal(), Secrets: c.secrets(&list), Ledger: fallback.NewMemory()}
	s.config.OnOtherNodes = map[string]redfence.OtherNodes{"refuse": redfence.RefuseOtherNodes, "move": redfence.MoveToNodes}[c.OtherNodes]
	if len(c.Redis) > 0 {
		addUnderFlags(&list, s.config.Validate())
		if err := node.CheckClients(s.nodes.universal(), false); err != nil {
			for _, problem := range problems.All(err) {
				list.Add("--redis: %w", problem)
			}
		}
	}
	s.handle(&list)
	if s.pool != nil {
		s.firstContact(a.ctx, &list)
	}
	if err := invalid(&list); err != nil {
		return nil, errors.Join(err, s.closeStores())
	}
	return s, nil
}

// addUnderFlags tells the problems of an engine's configuration under the names
// of the flags.
func addUnderFlags(list *problems.List, err error) {
	if err == nil {
		return
	}
	names := strings.NewReplacer("Nodes: ", "--redis: ", "Secrets: ", "--secret-file: ")
	for _, problem := range problems.All(err) {
		list.AddErr(errors.New(names.Replace(problem.Error())))
	}
}

// handle makes the gateway. Its problems are told under the names of the
// flags.
func (s *server) handle(list *problems.List) {
	file := s.command.served(list)
	if len(file.Routes) == 0 {
		return // said
	}
	s.longest = longestProcessing(file.Routes)
	handler, err := gateway.New(gateway.Config{
		Engine: s.later, Routes: file.Routes, Locks: file.Locks, Locker: s.later, Ready: s.later.ready, Metrics: s.metrics(),
		Error: func(err error) { s.log.Warn("upstream", "error", err) },
	})
	if err != nil {
		for _, problem := range problems.All(err) {
			list.AddErr(errors.New(flagOf(problem.Error())))
		}
	}
	s.handler = handler
}

// metrics returns the page for Prometheus, nil when it is not wanted.
func (s *server) metrics() http.Handler {
	if !s.command.Metrics {
		return nil
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.counts, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// longestProcessing is what the server's time-outs have to allow for; 0 is the
// default.
func longestProcessing(routes []gateway.Route) time.Duration {
	longest := time.Duration(0)
	for _, r := range routes {
		longest = max(longest, r.MaxProcessing)
	}
	return longest
}

// flagOf names the flag in a problem of the one route.
func flagOf(problem string) string {
	field, rest, ok := strings.Cut(strings.TrimPrefix(problem, "routes[0]."), ": ")
	switch {
	case !ok:
		return problem
	case field == "scope":
		return "--scope-header, --trusted, --unscoped: " + rest
	}
	return "--" + strings.ReplaceAll(field, "_", "-") + ": " + rest
}

func (c *serveCommand) describe(url string) string {
	behind := c.Upstream
	if c.Config != "" {
		behind = "the upstreams of " + c.Config
	}
	return fmt.Sprintf("redfence: serving %s, in front of %s\n", url, behind)
}
