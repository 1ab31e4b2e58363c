package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

const composeFile = "../docker-compose.multi.yml"

type compose struct {
	Services map[string]service `yaml:"services"`
	Volumes  map[string]any     `yaml:"volumes"`
}

type service struct {
	Image       string                       `yaml:"image"`
	Command     []string                     `yaml:"command"`
	Environment map[string]string            `yaml:"environment"`
	Ports       []string                     `yaml:"ports"`
	Volumes     []string                     `yaml:"volumes"`
	DependsOn   map[string]map[string]string `yaml:"depends_on"`
	Build       struct {
		Dockerfile string            `yaml:"dockerfile"`
		Args       map[string]string `yaml:"args"`
	} `yaml:"build"`
	Healthcheck struct {
		Test []string `yaml:"test"`
	} `yaml:"healthcheck"`
}

func readCompose(t *testing.T) compose {
	t.Helper()
	text, err := os.ReadFile(composeFile)
	if err != nil {
		t.Fatal(err)
	}
	var c compose
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func named(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%d", prefix, i+1)
	}
	return names
}

func TestComposeHasTheWholeTopology(t *testing.T) {
	c := readCompose(t)
	want := slices.Concat(named("redis", 5), named("gateway", 3), []string{"postgres", "loadbalancer"})
	got := make([]string, 0, len(c.Services))
	for name := range c.Services {
		got = append(got, name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
}

func TestEveryServiceCanBeReplacedWatchedAndReachedFromHereOnly(t *testing.T) {
	variable := regexp.MustCompile(`^\$\{[A-Z_]+:-[^}]+\}$`)
	loopback := regexp.MustCompile(`^127\.0\.0\.1:\$\{[A-Z0-9_]+:-\d+\}:\d+$`)
	for name, s := range readCompose(t).Services {
		if !variable.MatchString(s.Image) {
			t.Errorf("%s: image %q cannot be replaced by a variable", name, s.Image)
		}
		if len(s.Healthcheck.Test) == 0 {
			t.Errorf("%s has no health check", name)
		}
		for _, p := range s.Ports {
			if !loopback.MatchString(p) {
				t.Errorf("%s: port %q; want 127.0.0.1:${NAME:-number}:number", name, p)
			}
		}
	}
}

func TestRedisNodesNeverEvictAndKeepTheirData(t *testing.T) {
	c := readCompose(t)
	for _, name := range named("redis", 5) {
		s := c.Services[name]
		command := strings.Join(s.Command, " ")
		for _, option := range []string{"--maxmemory-policy noeviction", "--appendonly yes"} {
			if !strings.Contains(command, option) {
				t.Errorf("%s runs %q without %s", name, command, option)
			}
		}
		if want := []string{name + ":/data"}; !cmp.Equal(want, s.Volumes) {
			t.Errorf("%s keeps its data in %v, want %v", name, s.Volumes, want)
		}
		if _, ok := c.Volumes[name]; !ok {
			t.Errorf("volume %s is not declared", name)
		}
	}
}

func TestGatewaysKnowEveryStoreAndWaitForIt(t *testing.T) {
	c := readCompose(t)
	stores := append(named("redis", 5), "postgres")
	for _, name := range named("gateway", 3) {
		s := c.Services[name]
		urls := strings.Split(s.Environment["REDIS_URL"], ",")
		for i, node := range named("redis", 5) {
			if i >= len(urls) || urls[i] != "redis://"+node+":6379" {
				t.Errorf("%s: REDIS_URL %v does not name %s", name, urls, node)
			}
		}
		if !strings.Contains(s.Environment["DATABASE_URL"], "@postgres:5432/") {
			t.Errorf("%s: DATABASE_URL %q", name, s.Environment["DATABASE_URL"])
		}
		for _, store := range stores {
			if s.DependsOn[store]["condition"] != "service_healthy" {
				t.Errorf("%s does not wait for %s", name, store)
			}
		}
	}
}

func TestTheLoadBalancerKnowsEveryGateway(t *testing.T) {
	text, err := os.ReadFile("nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile(`(?m)^\s*server (gateway\d):8080;`).FindAllStringSubmatch(string(text), -1)
	names := make([]string, len(got))
	for i, match := range got {
		names[i] = match[1]
	}
	if diff := cmp.Diff(named("gateway", 3), names); diff != "" {
		t.Errorf("upstreams (-want +got):\n%s", diff)
	}
}

func TestTheImageTakesTheBaseImagesThatComposePasses(t *testing.T) {
	c := readCompose(t)
	build := c.Services["gateway1"].Build
	text, err := os.ReadFile("../" + build.Dockerfile)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range build.Args {
		fallback := regexp.MustCompile(`:-([^}]+)\}`).FindStringSubmatch(value)
		if fallback == nil || !strings.Contains(string(text), "ARG "+name+"="+fallback[1]+"\n") {
			t.Errorf("the Dockerfile has no ARG %s with the default of %s", name, value)
		}
	}
}

// TestComposeAcceptsTheFile asks the tools themselves, where there are any.
func TestComposeAcceptsTheFile(t *testing.T) {
	asked := 0
	for _, tool := range [][]string{{"docker-compose"}, {"docker", "compose"}} {
		if exec.Command(tool[0], append(tool[1:], "version")...).Run() != nil {
			continue
		}
		asked++
		args := slices.Concat(tool[1:], []string{"-f", composeFile, "config", "-q"})
		if out, err := exec.Command(tool[0], args...).CombinedOutput(); err != nil {
			t.Errorf("%s refuses the file: %v\n%s", strings.Join(tool, " "), err, out)
		}
	}
	if asked == 0 {
		t.Skip("neither docker-compose nor docker compose is here; the other tests have read the file")
	}
}
