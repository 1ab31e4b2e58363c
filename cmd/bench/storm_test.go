package main

import (
	"bytes"
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/redfence/redfence/cmd/bench/internal/measure"
	"github.com/redfence/redfence/observe"
)

func TestStormAndGrowthRun(t *testing.T) {
	needServers(t)
	var out, notes bytes.Buffer
	run([]string{"-preset", "smoke", "-target", "P8,P10"}, &out, &notes)
	for _, want := range []string{`(?m)^P8 (met|missed) \d+\.\d+ statements per key, `, `(?m)^P10 (met|missed) \d+\.\d+x with 10000 rows; heap `} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no line like %s:\n%s\n%s", want, out.String(), notes.String())
		}
	}
}

func TestTallyIsShared(t *testing.T) {
	mine, err := newTally()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := mine.remove(); err != nil {
			t.Error(err)
		}
	}()
	other, err := openTally(mine.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	for want := range 4 {
		from := []*tally{mine, other}[want%2]
		if id, err := from.fresh(); err != nil || id != want {
			t.Fatalf("fresh() = %d, %v; want %d", id, err, want)
		}
	}
	mine.start(0)
	mine.start(3)
	other.start(3)
	if used, twice := mine.used(), mine.twice(); used != 4 || twice != 1 {
		t.Errorf("used %d, twice %d; want 4 and 1", used, twice)
	}
	if err := other.close(); err != nil {
		t.Error(err)
	}
}

func TestRecentLooksBackALittle(t *testing.T) {
	r := newRecent()
	near := 0
	for range 1000 {
		if back := r.draw(); back < 0 || back > zipfRange {
			t.Fatalf("draw() = %d", back)
		} else if back < 100 {
			near++
		}
	}
	if near < 500 {
		t.Errorf("%d of 1000 draws are among the last 100 ids; want most", near)
	}
}

func TestJudgeOutage(t *testing.T) {
	killed := time.Unix(1000, 0)
	back := killed.Add(3 * time.Second)
	at := func(after, took time.Duration, route observe.Route, err error) request {
		return request{end: killed.Add(after), took: took, route: route, err: err}
	}
	served := []request{
		at(-time.Second, 5*time.Second, observe.Primary, nil), // before: does not count, however slow
		at(time.Second, 700*time.Millisecond, observe.Fallback, nil),
		at(3500*time.Millisecond, 10*time.Millisecond, observe.Fallback, nil),
		at(4*time.Second, 10*time.Millisecond, observe.Primary, nil),
		at(5*time.Second, 10*time.Millisecond, observe.Primary, nil),
	}
	got, err := judgeOutage(served, measure.Sample{}, killed, back)
	if err != nil || got.lost != 0 || got.p99 != 700e6 || got.back != 1e9 {
		t.Errorf("got p99 %v, back %v, lost %d, %v; want 700 ms, 1 s, none", got.p99, got.back, got.lost, err)
	}
	lossy := append(served, at(2*time.Second, time.Second, observe.Fallback, errors.New("refused")))
	if got, err := judgeOutage(lossy, measure.Sample{}, killed, back); err != nil || got.lost != 1 {
		t.Errorf("a request failed: lost %d, %v", got.lost, err)
	}
	if _, err := judgeOutage(served[:3], measure.Sample{}, killed, back); err == nil {
		t.Error("the primary route was never taken again, and nobody noticed")
	}
	if _, err := judgeOutage(served[3:], measure.Sample{}, killed, back); err == nil {
		t.Error("nothing was served during the outage, and nobody noticed")
	}
}
