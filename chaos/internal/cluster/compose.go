package cluster

import (
	"context"
	"fmt"
	"slices"

	"github.com/redfence/redfence/chaos/internal/history"
)

// Compose is a hook for a deployment of docker compose whose services are
// redis1 and so on, gateway1 and so on, and postgres.
type Compose struct {
	// File of the deployment.
	File string
}

// composed is what is done to a service, and the state that its container must
// have after it. Without heal the fault passes by itself.
type composed struct {
	inject, heal []string
	broken       string
}

var (
	composeKill  = composed{[]string{"kill", "-s", "KILL"}, []string{"start"}, "exited"}
	composePause = composed{[]string{"pause"}, []string{"unpause"}, "paused"}
	composeStop  = composed{[]string{"stop"}, []string{"start"}, "exited"}
)

// running is the state of a container at work.
const running = "running"

// composeFaults are those that docker compose can do. A node keeps its data
// when the deployment gives it a volume.
var composeFaults = map[string]composed{
	history.KillNode:      composeKill,
	history.PauseNode:     composePause,
	history.RebootNode:    {inject: []string{"restart"}, broken: running},
	history.KillPostgres:  composeKill,
	history.StopPostgres:  composePause,
	history.KillInstance:  composeKill,
	history.StopInstance:  composePause,
	history.DrainInstance: composeStop,
}

// ComposeDoes reports whether docker compose can do an action.
func ComposeDoes(a history.Action) bool {
	for kind := range composeFaults {
		if a.Kind == kind || a.Mends() && a.Kind == (history.Action{Kind: kind}).MendedBy() {
			return true
		}
	}
	return false
}

// Do implements Hook.
func (c Compose) Do(ctx context.Context, fault history.Action, phase string) (proof string, err error) {
	how, ok := composeFaults[fault.Kind]
	if !ok {
		return "", fmt.Errorf("docker compose cannot do %s", fault.Kind)
	}
	verb, want := how.inject, how.broken
	if phase == Heal {
		verb, want = how.heal, running
	}
	service := serviceOf(fault)
	if _, err := c.compose(ctx, append(slices.Clone(verb), service)...); err != nil {
		return "", err
	}
	state, err := c.state(ctx, service)
	if err == nil && state != want {
		err = fmt.Errorf("the container of %s is %s, want %s", service, state, want)
	}
	return fmt.Sprintf("the container of %s is %s", service, state), err
}

// Check finds out whether the deployment runs: gateways and nodes, and Postgres.
func (c Compose) Check(ctx context.Context, nodes, instances int) error {
	services := []string{"postgres"}
	for i := range nodes {
		services = append(services, serviceOf(history.Action{Kind: history.KillNode, Node: i}))
	}
	for i := range instances {
		services = append(services, serviceOf(history.Action{Kind: history.KillInstance, Instance: i}))
	}
	for _, service := range services {
		state, err := c.state(ctx, service)
		if err != nil {
			return fmt.Errorf("chaos: %w", err)
		}
		if state != running {
			return fmt.Errorf("chaos: the container of %s is %s; start the deployment first: docker compose -f %s up --build --wait", service, state, c.File)
		}
	}
	return nil
}

func serviceOf(a history.Action) string {
	switch a.On() {
	case "node":
		return fmt.Sprintf("redis%d", a.Node+1)
	case "postgres":
		return "postgres"
	}
	return fmt.Sprintf("gateway%d", a.Instance+1)
}

func (c Compose) compose(ctx context.Context, args ...string) (string, error) {
	return output(ctx, "docker", append([]string{"compose", "-f", c.File}, args...)...)
}

// state asks for the state of a service's container.
func (c Compose) state(ctx context.Context, service string) (string, error) {
	id, err := c.compose(ctx, "ps", "--all", "--quiet", service)
	if err != nil || id == "" {
		return "missing", err
	}
	return output(ctx, "docker", "inspect", "--format", "{{.State.Status}}", id)
}
