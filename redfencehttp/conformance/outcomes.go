package conformance

import (
	"fmt"
	"slices"
)

func outcomeCases(p Preset) []Case {
	var cases []Case
	for _, status := range statuses {
		query := fmt.Sprintf("status=%d", status)
		c := Case{fmt.Sprintf("status %d is stored", status), []Step{first(query, status), again(query, Want{Status: status, Replayed: true})}, 1}
		switch {
		case slices.Contains(p.Released, status):
			c = Case{fmt.Sprintf("status %d is released", status), []Step{first(query, status), again(query, Want{Status: status})}, 2}
		case slices.Contains(p.Held, status):
			c = Case{fmt.Sprintf("status %d is held", status), []Step{first(query, status), again(query, held)}, 1}
		}
		cases = append(cases, c)
	}
	busy := Want{Status: p.InFlight, Body: p.InFlightBody, RetryAfter: true}
	if p.InFlightBody == "" {
		busy.Problem = "in-flight"
	}
	return append(cases, aborted(p), Case{"in flight", []Step{
		{Query: "hold=1&body=done", Header: []string{keyed}, Hold: true},
		again("hold=1&body=done", busy),
		{Release: true, Want: Want{Status: 200, Body: "done"}},
		again("hold=1&body=done", Want{Status: 200, Replayed: true, Body: "done"}),
	}, 1})
}

var held = Want{Status: 409, Problem: "outcome-unknown", Header: []string{"Retry-After"}}

func aborted(p Preset) Case {
	steps := []Step{again("abort=1", Want{})}
	switch p.Aborted {
	case "held":
		return Case{"an aborted request is held", append(steps, again("abort=1", held)), 1}
	case "stored":
		return Case{"an aborted request is stored", append(steps, again("abort=1", Want{})), 1}
	}
	return Case{"an aborted request is released", append(steps, again("abort=1", Want{})), 2}
}

func replayCases(p Preset) []Case {
	const headers = "header=Link:%3Ca%3E&header=Link:%3Cb%3E&header=Set-Cookie:a%3Db&header=X-Mine:1&header=Location:%2F1"
	const large, tooLarge = 70 << 10, 10 << 20
	gone := Want{Status: 409, Problem: "response-not-replayable"}
	cases := []Case{
		{"headers", []Step{
			{Query: headers, Header: []string{keyed}, Want: Want{Status: 200, Header: []string{"Set-Cookie: a=b", "Idempotent-Replayed"}}},
			again(headers, Want{Status: 200, Replayed: true, Header: []string{"Link: <a>", "Link: <b>", "X-Mine: 1", "Location: /1", "Set-Cookie"}}),
		}, 1},
		{"an empty body", []Step{first("", 200), again("", Want{Status: 200, Replayed: true, Header: []string{"Content-Length: 0"}})}, 1},
		{"70 KB", sized(large, Want{Status: 200, Replayed: true, Length: large}), 1},
		{"10 MB", sized(tooLarge, gone), 1},
		{"a later duplicate, three times", []Step{
			first("body=x", 200), again("body=x", Want{Status: 200, Replayed: true, Body: "x"}),
			again("body=x", Want{Status: 200, Replayed: true, Body: "x"}), again("body=x", Want{Status: 200, Replayed: true, Body: "x"}),
		}, 1},
	}
	if p.Streams {
		cases = append(cases, Case{"streamed", []Step{first("flush=1&body=x", 200), again("flush=1&body=x", gone)}, 1})
	} else {
		cases = append(cases, Case{"flushed", []Step{first("flush=1&body=x", 200), again("flush=1&body=x", Want{Status: 200, Replayed: true, Body: "x"})}, 1})
	}
	return cases
}

func sized(n int, second Want) []Step {
	query := fmt.Sprintf("size=%d", n)
	return []Step{
		{Query: query, Header: []string{keyed}, Want: Want{Status: 200, Length: n}},
		again(query, second),
	}
}
