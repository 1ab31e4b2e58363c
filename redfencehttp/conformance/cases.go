package conformance

import "strings"

// A Preset is what a server does where servers differ.
type Preset struct {
	// InFlight and Mismatch are the statuses for a duplicate of a key in
	// flight and for another request under a used key.
	InFlight, Mismatch int
	// InFlightBody is the exact body for a key in flight, {retry_after} being
	// the value of Retry-After; empty: problem details.
	InFlightBody string
	// Released are the statuses after which a retry runs again, Held those
	// after which the key waits for a decision (409). Every other one is
	// stored.
	Released, Held []int
	// Aborted says what becomes of a request whose handler aborts: released,
	// held or stored.
	Aborted string
	// Streams: a flush passes the response through, so that it cannot be
	// replayed. A proxy may record it instead.
	Streams bool
}

// Presets are those of package redfencehttp.
var Presets = map[string]Preset{
	"ietf": {
		InFlight: 409, Mismatch: 422, Released: []int{401, 403, 408, 409, 413, 425, 429}, Held: []int{500, 503},
		Aborted: "held", Streams: true,
	},
	"stripe": {InFlight: 409, Mismatch: 400, Released: []int{401, 429}, Aborted: "stored", Streams: true},
	"webhook": {
		InFlight: 429, Mismatch: 422, InFlightBody: `{"error":"Request is currently being processed","retry_after":{retry_after}}`,
		Released: []int{400, 401, 403, 404, 408, 409, 413, 422, 425, 429, 500, 503}, Aborted: "released", Streams: true,
	},
}

// statuses are tried one by one.
var statuses = []int{200, 201, 202, 204, 302, 304, 400, 401, 403, 404, 408, 409, 413, 422, 425, 429, 500, 503}

// A Case is a list of requests under keys of its own. Each {key} stands for one
// fresh key, {other} for another one.
type Case struct {
	Name  string
	Steps []Step
	// Runs is how often the application must have run at the end.
	Runs int
}

// A Step is one request and what it must get.
type Step struct {
	Method string // defaults to POST
	Query  string // of /do, beside the case
	Header []string
	Body   string
	// Hold sends the request and goes on once the application runs; Release
	// ends it, and the answer of the held one is checked as this step's.
	Hold, Release bool
	Want          Want
}

// Want is what an answer must be.
type Want struct {
	Status   int // 0: anything, also no answer at all
	Replayed bool
	Body     string   // exact; empty: any
	Length   int      // of the body; 0: any
	Header   []string // "Name: value" must be there; "Name" must not
	Problem  string   // the end of the problem's type
	// RetryAfter: whole seconds, at least 1.
	RetryAfter bool
}

const keyed = "Idempotency-Key: {key}"

// first and again are the usual two steps.
func first(query string, status int) Step {
	return Step{Query: query, Header: []string{keyed}, Want: Want{Status: status}}
}

func again(query string, want Want) Step {
	return Step{Query: query, Header: []string{keyed}, Want: want}
}

// Cases returns the suite for a preset.
func Cases(p Preset) []Case {
	var all []Case
	for _, part := range [][]Case{keyCases(), fingerprintCases(p), outcomeCases(p), replayCases(p)} {
		all = append(all, part...)
	}
	return all
}

func keyCases() []Case {
	one := func(name string, headers ...string) Case {
		return Case{"the same key: " + name, []Step{
			{Header: []string{`Idempotency-Key: "{key}"`}, Want: Want{Status: 200}},
			{Header: headers, Want: Want{Status: 200, Replayed: true}},
		}, 1}
	}
	bad := func(name string, headers ...string) Case {
		return Case{"bad key: " + name, []Step{{Header: headers, Want: Want{Status: 400, Problem: "bad-key"}}}, 0}
	}
	two := func(name, a, b string) Case {
		return Case{"two keys: " + name, []Step{
			{Header: []string{"Idempotency-Key: " + a}, Want: Want{Status: 200}},
			{Header: []string{"Idempotency-Key: " + b}, Want: Want{Status: 200}},
		}, 2}
	}
	return []Case{
		one("bare", "Idempotency-Key: {key}"),
		one("with a parameter", `Idempotency-Key: "{key}";a=1`),
		one("under the other name", "X-Idempotency-Key: {key}"),
		one("twice", "Idempotency-Key: {key}", "Idempotency-Key: {key}"),
		one("in a list", "Idempotency-Key: {key}, {key}"),
		bad("unterminated", `Idempotency-Key: "{key}`),
		bad("list", "Idempotency-Key: {key}, {other}"),
		bad("two fields", "Idempotency-Key: {key}", "Idempotency-Key: {other}"),
		bad("two names", "Idempotency-Key: {key}", "X-Idempotency-Key: {other}"),
		bad("too long", "Idempotency-Key: "+strings.Repeat("x", 256)),
		bad("not ASCII", "Idempotency-Key: ké{key}"),
		bad("white space inside", "Idempotency-Key: {key} {key}"),
		bad("empty string", `Idempotency-Key: ""`),
		two("case", "{key}a", "{key}A"),
		two("a space at the end", `"{key}"`, `"{key} "`),
		{"no key", []Step{{Want: Want{Status: 200}}, {Want: Want{Status: 200}}}, 2},
		{"GET passes", []Step{
			{Method: "GET", Header: []string{keyed}, Want: Want{Status: 200}},
			{Method: "GET", Header: []string{keyed}, Want: Want{Status: 200}},
		}, 2},
	}
}

func fingerprintCases(p Preset) []Case {
	mismatch := Want{Status: p.Mismatch, Problem: "mismatch"}
	const json = "Content-Type: application/json"
	begin := Step{Query: "a=1&b=2", Header: []string{keyed, json}, Body: "body", Want: Want{Status: 200}}
	other := func(name string, change func(*Step)) Case {
		s := begin
		s.Want = mismatch
		change(&s)
		return Case{"mismatch: " + name, []Step{begin, s}, 1}
	}
	return []Case{
		other("body", func(s *Step) { s.Body = "another" }),
		other("query", func(s *Step) { s.Query = "a=1&b=3" }),
		other("media type", func(s *Step) { s.Header = []string{keyed, "Content-Type: text/plain"} }),
		other("method", func(s *Step) { s.Method = "PATCH" }),
		{"mismatch in flight", []Step{
			{Query: "hold=1", Header: []string{keyed}, Body: "a", Hold: true},
			{Query: "hold=1", Header: []string{keyed}, Body: "b", Want: mismatch},
			{Release: true, Want: Want{Status: 200}},
		}, 1},
		{"order of the query", []Step{begin, {Query: "b=2&a=1", Header: []string{keyed, json}, Body: "body", Want: Want{Status: 200, Replayed: true}}}, 1},
		{"parameters of the media type", []Step{begin, {
			Query: begin.Query, Header: []string{keyed, json + "; charset=utf-8"}, Body: "body", Want: Want{Status: 200, Replayed: true},
		}}, 1},
		{"another boundary", []Step{multipartStep("one", Want{Status: 200}), multipartStep("two", Want{Status: 200, Replayed: true})}, 1},
		{"the body arrives", []Step{{Query: "echo=1", Header: []string{keyed}, Body: "hello", Want: Want{Status: 200, Body: "hello"}}}, 1},
	}
}

func multipartStep(boundary string, want Want) Step {
	return Step{
		Header: []string{keyed, "Content-Type: multipart/form-data; boundary=" + boundary},
		Body:   "--" + boundary + "\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--" + boundary + "--\r\n",
		Want:   want,
	}
}
