package lock

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/testenv"
)

// exercise uses everything that a locker does on its nodes. It returns the
// first thing that does not work.
func exercise(ctx context.Context, clients []redis.UniversalClient, cfg Config) error {
	cfg.MaxTTL, cfg.TTL = testMaxTTL, time.Second
	a, err := New(ctx, clients, cfg)
	if err != nil {
		return err
	}
	defer a.Close()
	b, err := New(ctx, clients, cfg)
	if err != nil {
		return err
	}
	defer b.Close()
	lease, err := a.Acquire(ctx, "x", WithFair())
	if err != nil {
		return err
	}
	if _, err := b.TryAcquire(ctx, "x"); !errors.Is(err, ErrTaken) {
		return fmt.Errorf("the rival: %w", err)
	}
	if err := lease.Extend(ctx); err != nil {
		return err
	}
	s, err := b.Inspect(ctx, "x")
	if err != nil || !s.Held {
		return fmt.Errorf("inspect: %+v, %w", s, err)
	}
	page, err := b.List(ctx, "", 0)
	if err != nil || len(page.Skipped) > 0 || len(page.Names) != 1 {
		return fmt.Errorf("list: %+v, %w", page, err)
	}
	// A node that refuses to keep a line makes waiting unfair, not impossible.
	place := b.newPlace("x")
	if _, err := b.nodes[0].Eval(ctx, lineUpScript, place.keys, place.token, fairForget.Milliseconds()); err != nil {
		return err
	}
	place.leave()
	if err := handOver(ctx, b, lease); err != nil {
		return err
	}
	return noFinding(ctx, clients)
}

// handOver releases while somebody waits: the wake-up must come.
func handOver(ctx context.Context, to *Redlock, lease Lease) error {
	woken, stop := to.Watch("x")
	defer stop()
	if err := asked(to, "x"); err != nil {
		return err
	}
	if err := lease.Release(ctx); err != nil {
		return err
	}
	select {
	case <-woken:
	case <-time.After(2 * time.Second):
		return errors.New("no wake-up")
	}
	soon, cancel := context.WithTimeout(ctx, time.Second) // nobody else is in line
	defer cancel()
	next, err := to.Acquire(soon, "x", WithFair())
	if err != nil {
		return err
	}
	return next.Release(ctx)
}

func noFinding(ctx context.Context, clients []redis.UniversalClient) error {
	for _, f := range Check(ctx, clients) {
		if strings.Contains(f.Problem, "INFO") {
			return errors.New(f.String())
		}
	}
	return nil
}

func TestProtocols(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{2, 3} {
		servers := deploy(t, 3)
		clients := make([]redis.UniversalClient, len(servers))
		for i, s := range servers {
			o := &redis.Options{Addr: s.Addr(), Protocol: protocol}
			forNode(o)
			clients[i] = redis.NewClient(o)
			defer clients[i].Close()
		}
		for _, unguarded := range []bool{false, true} {
			if err := exercise(t.Context(), clients, Config{Unguarded: unguarded}); err != nil {
				t.Errorf("RESP%d, unguarded %v: %v", protocol, unguarded, err)
			}
		}
	}
}

// documentedACL reads the user from the documentation, so that what it says is
// what was tried.
func documentedACL(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/LOCK.md")
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if rules, ok := strings.CutPrefix(strings.TrimSpace(line), "ACL SETUSER locker "); ok {
			return strings.Fields(rules)
		}
	}
	t.Fatal("docs/LOCK.md has no line ACL SETUSER locker …")
	return nil
}

func TestDocumentedACLIsEnoughAndMinimal(t *testing.T) {
	t.Parallel()
	rules := documentedACL(t)
	servers := deploy(t, 1)
	try := func(rules []string) error {
		must(t, servers[0].Client().FlushAll(t.Context()).Err())
		must(t, Init(t.Context(), clientsOf(servers), Config{MaxTTL: testMaxTTL}))
		args := []any{"ACL", "SETUSER", "locker", "reset"}
		for _, r := range rules {
			args = append(args, r)
		}
		must(t, servers[0].Client().Do(t.Context(), args...).Err())
		must(t, servers[0].Client().ScriptFlush(t.Context()).Err())
		o := &redis.Options{Addr: servers[0].Addr(), Username: "locker", Password: "secret"}
		forNode(o)
		client := redis.NewClient(o)
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return exercise(ctx, []redis.UniversalClient{client}, Config{})
	}
	if err := try(rules); err != nil {
		t.Fatalf("the documented rules are not enough: %v", err)
	}
	for i, r := range rules {
		if !long && i%7 != 5 { // each refusal takes its time to show
			continue
		}
		if !strings.HasPrefix(r, "+") {
			continue
		}
		without := append(append([]string(nil), rules[:i]...), rules[i+1:]...)
		if err := try(without); err == nil {
			t.Errorf("%s is not needed", r)
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	roots := certificate(t, dir)
	port := freePort(t)
	server, err := testenv.StartRedis(t.Context(), testenv.RedisOptions{Args: []string{
		"--tls-port", fmt.Sprint(port), "--tls-cert-file", filepath.Join(dir, "cert.pem"),
		"--tls-key-file", filepath.Join(dir, "key.pem"), "--tls-ca-cert-file", filepath.Join(dir, "cert.pem"),
		"--tls-auth-clients", "no",
	}})
	must(t, err)
	defer server.Close()
	must(t, Init(t.Context(), []redis.UniversalClient{server.Client()}, Config{MaxTTL: testMaxTTL}))
	clients, err := Dial(fmt.Sprintf("rediss://127.0.0.1:%d", port))
	must(t, err)
	defer clients[0].Close()
	clients[0].(*redis.Client).Options().TLSConfig.RootCAs = roots
	must(t, exercise(t.Context(), clients, Config{}))
}

// certificate writes a self-signed certificate and returns a pool with it.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	must(t, err)
	write := func(name, kind string, der []byte) {
		must(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o644))
	}
	must(t, os.Chmod(dir, 0o755)) // the server may run as somebody else
	write("cert.pem", "CERTIFICATE", der)
	write("key.pem", "EC PRIVATE KEY", keyDER)
	parsed, err := x509.ParseCertificate(der)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return pool
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// A Cluster can be one node of an unguarded lock; the guard cannot watch it.
func TestClusterAsOneNode(t *testing.T) {
	t.Parallel()
	server, err := testenv.StartRedis(t.Context(), testenv.RedisOptions{Args: []string{"--cluster-enabled", "yes"}})
	must(t, err)
	defer server.Close()
	must(t, server.Client().Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err())
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}, ContextTimeoutEnabled: true, MaxRetries: -1})
	defer client.Close()
	clients := []redis.UniversalClient{client}
	if _, err := New(t.Context(), clients, Config{}); err == nil || !strings.Contains(err.Error(), "Unguarded") {
		t.Errorf("a guarded lock over a Cluster: %v", err)
	}
	eventually(t, 10*time.Second, func() error {
		info, err := server.Client().ClusterInfo(t.Context()).Result()
		if err == nil && !strings.Contains(info, "cluster_state:ok") {
			err = errors.New(info)
		}
		return err
	})
	must(t, exercise(t.Context(), clients, Config{Unguarded: true}))
	r := locker(t, clients, Config{Unguarded: true})
	for _, name := range []string{"}", "}x", "{", "{}", "x}y", "{a}b"} { // braces say which shard a key is on
		must(t, take(t, r, name).Release(t.Context()))
	}
	if found := fmt.Sprint(Check(t.Context(), clients)); !strings.Contains(found, "min-replicas-to-write") {
		t.Errorf("Check says nothing of failover: %s", found)
	}
}

// Sentinel can be one node; a failover changes the run id and so brings the
// guard down on it.
func TestSentinelAsOneNode(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 1)
	sentinel := startSentinel(t, servers[0].Addr())
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "m", SentinelAddrs: []string{sentinel}, ContextTimeoutEnabled: true, MaxRetries: -1})
	defer client.Close()
	clients := []redis.UniversalClient{client}
	must(t, exercise(t.Context(), clients, Config{NodeTimeout: 2 * time.Second}))
	if found := fmt.Sprint(Check(t.Context(), clients)); !strings.Contains(found, "min-replicas-to-write") {
		t.Errorf("Check says nothing of failover: %s", found)
	}
}

func startSentinel(t *testing.T, master string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(master)
	must(t, err)
	own := freePort(t)
	dir := t.TempDir()
	conf := filepath.Join(dir, "sentinel.conf")
	must(t, os.WriteFile(conf, []byte(fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor m %s %s 1\n", own, dir, host, port)), 0o600))
	cmd := exec.Command("redis-server", conf, "--sentinel")
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	addr := fmt.Sprintf("127.0.0.1:%d", own)
	probe := redis.NewSentinelClient(&redis.Options{Addr: addr})
	defer probe.Close()
	eventually(t, 10*time.Second, func() error {
		return probe.GetMasterAddrByName(t.Context(), "m").Err()
	})
	return addr
}

func TestValkey(t *testing.T) {
	if _, err := exec.LookPath("valkey-server"); err != nil {
		t.Skip("not run: no valkey-server here")
	}
	port := freePort(t)
	cmd := exec.Command("valkey-server", "--port", fmt.Sprint(port), "--save", "", "--dir", t.TempDir())
	must(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	}()
	clients, err := Dial(fmt.Sprintf("redis://127.0.0.1:%d", port))
	must(t, err)
	defer clients[0].Close()
	eventually(t, 10*time.Second, func() error { return Init(t.Context(), clients, Config{MaxTTL: testMaxTTL}) })
	must(t, exercise(t.Context(), clients, Config{}))
}
