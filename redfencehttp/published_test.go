package redfencehttp

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/redfence/redfence"
)

func TestPublished(t *testing.T) {
	mw, err := New(serveEngine(t), IETF(), Unscoped(),
		Route("PUT /plans/{id}", Stripe(), Retention(redfence.Forever), RequireKey()),
		Route("POST /hooks/", Webhook(), Retention(time.Minute), NeverAgain(410)),
		Route("POST /ping", Off()))
	if err != nil {
		t.Fatal(err)
	}
	w := newWriter()
	mw.PolicyHandler().ServeHTTP(w, newRequest("GET", "/", ""))
	var got struct{ Policies []PublishedPolicy }
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Policies) != 4 {
		t.Fatalf("%d policies", len(got.Policies))
	}
	plans, hooks, ping, base := got.Policies[0], got.Policies[1], got.Policies[2], got.Policies[3]
	if plans.Preset != "Stripe" || plans.RetentionSeconds != nil || !plans.KeyRequired || !slices.Equal(plans.Methods, []string{"PUT"}) || plans.Mismatch != 400 {
		t.Errorf("plans: %+v", plans)
	}
	if hooks.InFlight != 429 || *hooks.RetentionSeconds != 60 || hooks.AfterRetention != "never_again" || hooks.Outcomes["500"] != "released" {
		t.Errorf("hooks: %+v", hooks)
	}
	if ping.Protected {
		t.Errorf("ping: %+v", ping)
	}
	if base.Route != "" || *base.RetentionSeconds != 86400 || base.Outcomes["500"] != "unknown" || base.Outcomes["409"] != "released" || base.MaxKeyBytes != 255 {
		t.Errorf("base: %+v", base)
	}
}

func TestOpenAPIFragment(t *testing.T) {
	mw, err := New(serveEngine(t), Webhook(), Unscoped(), Headers("webhook-id"))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Components struct {
			Parameters map[string]struct{ Name, In string }
			Responses  map[string]map[string]any
			Headers    map[string]any
		}
	}
	if err := json.Unmarshal(mw.OpenAPI(), &got); err != nil {
		t.Fatal(err)
	}
	if p := got.Components.Parameters["IdempotencyKey"]; p.Name != "Webhook-Id" || p.In != "header" {
		t.Errorf("parameter %+v", p)
	}
	if s := got.Components.Responses["IdempotencyInFlight"]["x-status"]; s != float64(http.StatusTooManyRequests) {
		t.Errorf("in flight: %v", s)
	}
	if len(got.Components.Headers) != 3 {
		t.Errorf("headers %v", got.Components.Headers)
	}
}

func TestRoutes(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) }, IETF(), Unscoped(),
		Route("POST /hooks/", Webhook()), Route("PUT /plans/{id}", Stripe()), Route("POST /ping", Off()))
	for _, tc := range []struct {
		method, path   string
		second         int
		replayed, runs bool // runs: again
	}{
		{"POST", "/other", 409, false, false},
		{"POST", "/hooks/a", 500, false, true},
		{"PUT", "/plans/1", 500, true, false},
		{"POST", "/ping", 500, false, true},
		{"PUT", "/other", 500, false, true},
	} {
		before := s.runs.Load()
		k := "Idempotency-Key: " + tc.method + tc.path
		s.do(tc.method, tc.path, "", k).want(t, 500, false)
		s.do(tc.method, tc.path, "", k).want(t, tc.second, tc.replayed)
		if again := s.runs.Load()-before == 2; again != tc.runs {
			t.Errorf("%s %s: ran %d times", tc.method, tc.path, s.runs.Load()-before)
		}
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	_, err := New(nil, Retention(-1), Stripe(), Headers(), Methods("GET"), MaxRequest(-1), MaxResponse(-1), InFlight(200), Fingerprint(9),
		MaxPerScope(-1), Policy(redfence.Policy{OnError: redfence.ErrorReleases, Lease: 1}))
	wantAll(t, err, "engine: none", "Stripe() comes after", "no scope", "Headers: none", "Methods: GET", "MaxRequest", "MaxResponse",
		"InFlight: status 200", "unknown version 9", "MaxPerScope", "Policy.OnError", "Policy.Lease")
	_, err = New(serveEngine(t), IETF(), Unscoped(), Route("POST /a", Route("POST /b")), Route("POST /a", MaxRequest(-1)), Route("{"))
	wantAll(t, err, `Route("POST /a"): holds another Route`, `Route("POST /a"): MaxRequest`, `pattern "POST /a" conflicts`, `Route("{"): `)
}

// What no request can carry would leave the route without protection.
func TestNamesThatMatchNoRequest(t *testing.T) {
	_, err := New(serveEngine(t), Unscoped(), Methods("GE T", "get", ""), Headers("a b"), AllowHeaders("x:"), DenyHeaders("é"))
	wantAll(t, err, `Methods: "GE T" is no method`, "Methods: GET has no effect", `Methods: "" is no method`, `Headers: "a b" is no name`,
		`AllowHeaders: "x:"`, `DenyHeaders: "é"`)
	_, err = New(serveEngine(t), Unscoped(), Methods())
	wantAll(t, err, "Methods: none")
}

func TestMethodsInLowerCaseAreProtected(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {}, IETF(), Unscoped(), Methods("post"))
	s.post("/", "", key).want(t, http.StatusOK, false)
	s.post("/", "", key).want(t, http.StatusOK, true)
}
