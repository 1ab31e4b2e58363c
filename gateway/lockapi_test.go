package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A lockClient speaks to the lock API as one caller.
type lockClient struct {
	t     *testing.T
	url   string
	scope string
	doc   map[string]map[string]operation
}

type operation struct {
	Responses map[string]any `json:"responses"`
}

func lockGateway(t *testing.T, locks Locks) *lockClient {
	t.Helper()
	locks.Enabled = true
	locks.Scope = Scope{Header: "X-Tenant", Trusted: []string{"127.0.0.0/8"}}
	engine := newEngine(t)
	g := start(t, Config{Engine: engine, Locker: engine, Locks: locks, Routes: []Route{route("http://127.0.0.1:1")}})
	var doc struct {
		Paths map[string]map[string]operation
	}
	r, _ := http.NewRequest("GET", g.URL+"/-/openapi.json", nil)
	if err := json.Unmarshal([]byte(send(t, http.DefaultClient, r).body), &doc); err != nil {
		t.Fatal(err)
	}
	return &lockClient{t: t, url: g.URL, scope: "acme", doc: doc.Paths}
}

// do sends one request; every answer must be one that the document knows.
func (c *lockClient) do(method, path, body string) (reply, grant) {
	c.t.Helper()
	r, err := http.NewRequest(method, c.url+"/-/locks/"+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if c.scope != "" {
		r.Header.Set("X-Tenant", c.scope)
	}
	got := send(c.t, http.DefaultClient, r)
	template := "/-/locks/{name}"
	if strings.Contains(path, "/") {
		template += "/{lease}"
	}
	if _, known := c.doc[template][strings.ToLower(method)].Responses[fmt.Sprint(got.StatusCode)]; !known {
		c.t.Errorf("%s %s answers %d, which the document does not know", method, template, got.StatusCode)
	}
	var g grant
	if got.StatusCode == http.StatusOK {
		if err := json.Unmarshal([]byte(got.body), &g); err != nil {
			c.t.Fatal(err)
		}
	}
	return got, g
}

func (c *lockClient) want(method, path, body string, status int, problem string) grant {
	c.t.Helper()
	got, g := c.do(method, path, body)
	if got.StatusCode != status || (problem != "" && !strings.Contains(got.body, "#"+problem+`"`)) {
		c.t.Errorf("%s %s: %d %s, want %d %s", method, path, got.StatusCode, got.body, status, problem)
	}
	return g
}

func TestLockLife(t *testing.T) {
	c := lockGateway(t, Locks{})
	first := c.want("POST", "job", `{"ttl_ms":5000}`, 200, "")
	if first.Name != "job" || first.Fence <= 0 || first.ValidFor <= 0 || first.ValidFor > 5000 {
		t.Errorf("granted %+v", first)
	}
	taken, _ := c.do("POST", "job", `{}`)
	if taken.StatusCode != 409 || taken.Header.Get("Retry-After") == "" || !strings.Contains(taken.body, "#lock-taken") {
		t.Errorf("taken: %d %v %s", taken.StatusCode, taken.Header, taken.body)
	}
	renewed := c.want("PUT", "job/"+first.Lease, "", 200, "")
	if renewed.Fence != first.Fence || renewed.ValidFor <= 0 {
		t.Errorf("renewed %+v", renewed)
	}
	c.want("DELETE", "job/"+first.Lease, "", 204, "")
	c.want("DELETE", "job/"+first.Lease, "", 404, "lease-unknown")
	c.want("PUT", "job/"+first.Lease, "", 404, "lease-unknown")
	if next := c.want("POST", "job", `{}`, 200, ""); next.Fence <= first.Fence {
		t.Errorf("fence %d after %d", next.Fence, first.Fence)
	}
}

// A request whose answer was lost is sent again under the same lease id.
func TestAcquireIsSafeToSendAgain(t *testing.T) {
	c := lockGateway(t, Locks{})
	const body = `{"lease":"0123456789abcdef"}`
	first := c.want("POST", "job", body, 200, "")
	if again := c.want("POST", "job", body, 200, ""); again.Fence != first.Fence {
		t.Errorf("fence %d, then %d", first.Fence, again.Fence)
	}
	c.want("POST", "another", body, 409, "lease-used")
}

func TestLeaseEndsWithoutRenewal(t *testing.T) {
	c := lockGateway(t, Locks{})
	first := c.want("POST", "job", `{"ttl_ms":300}`, 200, "")
	began := time.Now()
	next := c.want("POST", "job", `{"ttl_ms":300,"wait_ms":20000}`, 200, "")
	if next.Fence <= first.Fence {
		t.Errorf("fence %d after %d", next.Fence, first.Fence)
	}
	if waited := time.Since(began); waited > 10*time.Second {
		t.Errorf("waited %v for a lease of 300 ms", waited)
	}
	c.want("PUT", "job/"+first.Lease, "", 404, "lease-unknown")
}

func TestRenewedLeaseStays(t *testing.T) {
	c := lockGateway(t, Locks{})
	first := c.want("POST", "job", `{"ttl_ms":500}`, 200, "")
	for range 8 {
		time.Sleep(200 * time.Millisecond)
		c.want("PUT", "job/"+first.Lease, "", 200, "")
		c.want("POST", "job", `{}`, 409, "lock-taken")
	}
}

func TestLocksOfTwoScopesNeverMeet(t *testing.T) {
	c := lockGateway(t, Locks{})
	held := c.want("POST", "job", `{}`, 200, "")
	for _, scope := range []string{"acme:", "a", "4:acme", "acme:job"} {
		c.scope = scope
		c.want("PUT", "job/"+held.Lease, "", 404, "lease-unknown")
		c.want("DELETE", "job/"+held.Lease, "", 404, "lease-unknown")
		c.want("POST", "job", `{}`, 200, "")
	}
	c.scope = ""
	c.want("POST", "job", `{}`, 403, "no-scope")
	c.want("PUT", "job/"+held.Lease, "", 403, "no-scope")
	c.want("DELETE", "job/"+held.Lease, "", 403, "no-scope")
}

func TestNoHoarding(t *testing.T) {
	c := lockGateway(t, Locks{MaxPerScope: 2, MaxTTL: time.Second})
	first := c.want("POST", "a", `{}`, 200, "")
	c.want("POST", "b", `{}`, 200, "")
	c.want("POST", "c", `{}`, 429, "too-many-leases")
	c.scope = "other"
	c.want("POST", "c", `{}`, 200, "")
	c.scope = "acme"
	c.want("DELETE", "a/"+first.Lease, "", 204, "")
	c.want("POST", "d", `{}`, 200, "")
	c.want("POST", "d", `{"ttl_ms":1001}`, 400, "bad-request")
}

func TestBadLockRequests(t *testing.T) {
	c := lockGateway(t, Locks{})
	for _, body := range []string{
		``, `[]`, `{"ttl_ms":99}`, `{"ttl_ms":"1s"}`, `{"ttl_ms":60001}`, `{"wait_ms":-1}`, `{"wait_ms":30001}`, `{"lease":"short"}`,
		`{"lease":"` + strings.Repeat("x", 65) + `"}`, `{"lease":"0123456789abcde/"}`, `{"colour":1}`, `{"lease":"` + strings.Repeat("x", 5000) + `"}`,
	} {
		c.want("POST", "job", body, 400, "bad-request")
	}
	c.want("POST", strings.Repeat("n", 256), `{}`, 400, "bad-request")
	c.want("POST", strings.Repeat("n", 255), `{}`, 200, "")
}

// Every path of the document is served.
func TestDocumentIsServed(t *testing.T) {
	c := lockGateway(t, Locks{})
	for path, methods := range c.doc {
		for method := range methods {
			path := strings.NewReplacer("{name}", "job", "{lease}", "0123456789abcdef").Replace(path)
			r, _ := http.NewRequest(strings.ToUpper(method), c.url+path, strings.NewReader("{}"))
			r.Header.Set("X-Tenant", "acme")
			got := send(t, http.DefaultClient, r)
			if got.StatusCode == 405 || (got.StatusCode == 404 && !strings.Contains(got.body, "lease-unknown")) {
				t.Errorf("%s %s: %d", method, path, got.StatusCode)
			}
		}
	}
}

func TestPolicyIsPublished(t *testing.T) {
	g := start(t, Config{Routes: []Route{route("http://127.0.0.1:1")}})
	r, _ := http.NewRequest("GET", g.URL+"/-/policy", nil)
	var got []struct {
		Path, Preset string
		Retention    float64 `json:"retention_seconds"`
	}
	if err := json.Unmarshal([]byte(send(t, http.DefaultClient, r).body), &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Path != "/" || got[0].Preset != "Webhook" || got[0].Retention != 86400 {
		t.Errorf("got %+v", got)
	}
}
