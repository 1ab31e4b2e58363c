package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/redfence/redfence/chaos/internal/baseline"
	"github.com/redfence/redfence/chaos/internal/cluster"
	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/nemesis"
	"github.com/redfence/redfence/internal/problems"
)

// driverFlags say what a run is done to.
type driverFlags struct {
	Driver      string   `default:"local" enum:"local,compose" help:"What is broken: local, processes that the run starts; compose, the containers of a deployment that runs, by docker compose."`
	ComposeFile string   `default:"docker-compose.multi.yml" help:"File of that deployment: services redis1 and so on, gateway1 and so on, postgres." placeholder:"FILE"`
	Target      []string `help:"Send the load to these URLs of your own deployment, as POST with an Idempotency-Key; break it with -exec. With -driver compose: other URLs than those of the file." placeholder:"URL"`
	Exec        string   `help:"Command that breaks and mends a part of the target. Three arguments come after it: the fault, the number of the node or instance from 0, and inject or heal." placeholder:"CMD"`
	Recorder    string   `help:"Address at which the recorder listens, to which the target's handlers report their starts (docs/CHAOS.md says how). Defaults to a free port of the loopback interface." placeholder:"HOST:PORT"`
}

func (f driverFlags) external() bool { return f.Driver != "local" || len(f.Target) > 0 }

// mistakes are flags that do not go together.
func (r *runCommand) mistakes(list *problems.List) {
	switch {
	case r.Driver == "local" && len(r.Target) > 0 && r.Exec == "":
		list.Add("-target needs -exec: nothing would be broken")
	case r.Exec != "" && len(r.Target) == 0, r.Exec != "" && r.Driver != "local":
		list.Add("-exec breaks what -target names, with -driver local")
	}
	if r.external() && (r.Rehearse || r.Break != "" || r.Engine != baseline.Ours || r.Scenario != "" || r.Mutant != "" || r.Shrink) {
		list.Add("-rehearse, -break, -engine, -scenario, -mutant and -shrink need processes that the run starts, not -target or -driver %s", r.Driver)
	}
	for _, target := range r.Target {
		if u, err := url.Parse(target); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			list.Add("-target %q: give a URL such as http://127.0.0.1:8080/orders", target)
		}
	}
}

// aim fills in what the run is done to.
func (r *runCommand) aim(s *history.Setup) {
	targets := r.Target
	if r.Driver == "compose" {
		s.Compose = r.ComposeFile
		if len(targets) == 0 {
			targets = composeTargets()
		}
		s.Without = nemesis.Impossible(nemesis.Topology{Nodes: s.Nodes, Instances: len(targets)}, cluster.ComposeDoes)
	}
	s.Exec, s.Recorder = r.Exec, r.Recorder
	for _, target := range targets {
		s.Target = append(s.Target, withPath(target))
	}
	if s.External() {
		s.Instances = len(s.Target)
	}
}

// withPath tells a whole URL from the base of an instance.
func withPath(target string) string {
	if u, err := url.Parse(target); err == nil && u.Path == "" {
		u.Path = "/"
		return u.String()
	}
	return target
}

// composeTargets are the gateways of docker-compose.multi.yml.
func composeTargets() (urls []string) {
	for i, port := range []string{"8081", "8082", "8083"} {
		if other := os.Getenv(fmt.Sprintf("GATEWAY%d_PORT", i+1)); other != "" {
			port = other
		}
		urls = append(urls, "http://127.0.0.1:"+port+"/orders")
	}
	return urls
}

// startTarget aims at a deployment that runs.
func (c *controller) startTarget(ctx context.Context) (cluster.Cluster, error) {
	s := c.setup
	if s.Compose == "" {
		return cluster.NewTarget(s.Target, s.Nodes, cluster.Exec{Command: s.Exec}), nil
	}
	hook := cluster.Compose{File: s.Compose}
	if err := hook.Check(ctx, s.Nodes, s.Instances); err != nil {
		return nil, err
	}
	return cluster.NewTarget(s.Target, s.Nodes, hook), nil
}

// prefix of the keys. A target may know those of an earlier run.
func (c *controller) prefix() string {
	if c.setup.External() {
		return fmt.Sprintf("%d-%s", c.setup.Seed, strings.ToLower(rand.Text()[:8]))
	}
	return fmt.Sprint(c.setup.Seed)
}

// announce says what begins.
func (c *controller) announce(progress *progress) {
	s := c.setup
	if !s.External() {
		progress.say("starting %d Redis nodes, a ledger and %d engine instances", s.Nodes, s.Instances)
		return
	}
	progress.say("sending to %s; handlers report their starts to %s", strings.Join(s.Target, ", "), c.record.URL())
}
