package report

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redfence/redfence/chaos/internal/check"
	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/nemesis"
)

// hour is a run of an hour with everything that its schedule breaks, and
// breakers that change all the time.
func hour(t *testing.T) (*history.History, check.Result) {
	t.Helper()
	h := &history.History{Setup: history.Setup{Preset: "soak", Seed: 1, Duration: time.Hour, Nodes: 5, Instances: 3}}
	steps, err := nemesis.Plan{Preset: "soak", Seed: 1, Duration: time.Hour, Topology: nemesis.Topology{Nodes: 5, Instances: 3}}.Steps()
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range steps {
		h.Faults = append(h.Faults, history.Fault{
			Action: s.Action, At: s.At, Done: s.At + 10*time.Millisecond, Missed: i%9 == 0,
			Proof: fmt.Sprintf("process %d waited for; dial tcp 127.0.0.1:%d: connect: connection refused", i, i),
		})
	}
	var figures check.Figures
	for i := range 3700 {
		figures.Seconds = append(figures.Seconds, check.Second{Requests: 60 + i%7, Served: 60 + i%7, All: 300 + i%31, Primary: 50, Fallback: i % 10})
		for instance := range 3 {
			h.Effects = append(h.Effects, history.Effect{
				At: time.Duration(i) * time.Second, Kind: history.Breaker, Instance: fmt.Sprintf("instance-%d", instance), Route: breakerStates[i%3],
			})
		}
		if i%10 == 0 {
			figures.Outages = append(figures.Outages, check.Outage{From: time.Duration(i) * time.Second, To: time.Duration(i+3) * time.Second, Fresh: 180, Served: 179})
		}
	}
	return h, check.Result{Figures: figures}
}

func written(t *testing.T, r Report, write func(Report, io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(r, &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestAnHoursReportIsSmall(t *testing.T) {
	h, result := hour(t)
	if len(h.Faults) < 3000 {
		t.Fatalf("only %d faults: this tests nothing", len(h.Faults))
	}
	r := New(h, result, "")
	page := written(t, r, Report.HTML)
	var packed bytes.Buffer
	to := gzip.NewWriter(&packed)
	for _, text := range []string{page, written(t, r, Report.JSON)} {
		_, _ = io.WriteString(to, text) // to memory
	}
	_ = to.Close()
	if len(page) > 2<<20 || packed.Len() > 1<<20 {
		t.Errorf("the page has %d bytes; packed with the JSON %d", len(page), packed.Len())
	}
	if n := strings.Count(page, `<rect class="all"`); n < mostBars/2 || n > mostBars {
		t.Errorf("%d bars in a row", n)
	}
	if n := strings.Count(page, "<text class=\"tick\""); n > 14 {
		t.Errorf("%d marks on the axis", n)
	}
}

func TestAFailedRequestOfAnHourIsSeen(t *testing.T) {
	h, result := hour(t)
	result.Figures.Seconds[1234].Served--
	result.Figures.Seconds[1234].All = 100000 // and no burst hides it
	result.Figures.Seconds[1234].Requests += 5000
	result.Figures.Seconds[1234].Served += 5000
	page := written(t, New(h, result, ""), Report.HTML)
	found := regexp.MustCompile(`<rect class="failed"[^>]* height="([0-9.]+)"><title>20m32s to 20m43s: failed 1, 0.1 per second</title>`).FindStringSubmatch(page)
	if found == nil || found[1] < "1.5" {
		t.Errorf("the failed request is not there, or too flat: %q", found)
	}
	if n := strings.Count(page, `<rect class="failed"`); n != 1 {
		t.Errorf("%d bars show failed requests, want 1", n)
	}
}

// TestNothingIsHiddenByWhatIsDrawnTogether: what is too narrow to be drawn by
// itself is counted where it is drawn.
func TestNothingIsHiddenByWhatIsDrawnTogether(t *testing.T) {
	h := &history.History{Setup: history.Setup{Instances: 1, Duration: time.Hour}}
	for i := range 50 { // flapping for five seconds
		for _, kind := range []string{history.PauseNode, history.ResumeNode} {
			at := time.Minute + time.Duration(i)*100*time.Millisecond
			h.Faults = append(h.Faults, history.Fault{Action: history.Action{Kind: kind}, At: at, Done: at, Proof: "p"})
		}
	}
	h.Faults = append(h.Faults, history.Fault{Action: history.Action{Kind: history.FlushNode}, At: time.Minute, Done: time.Minute, Missed: true, Proof: "empty"})
	for i, route := range []string{"open", "half-open", "closed"} {
		h.Effects = append(h.Effects, history.Effect{Kind: history.Breaker, Instance: "instance-0", Route: route, At: time.Minute + time.Duration(i)*time.Second})
	}
	page := written(t, New(h, check.Result{Figures: check.Figures{Seconds: make([]check.Second, 3600)}}, ""), Report.HTML)
	for _, want := range []string{
		"<title>1m0s to 1m4.9s: 50 × pause-node 0</title>", `class="fault missed"`, "flush-node 0, 1m0s to 1m0s: empty",
		`class="breaker open"`, "breaker open and half-open, 1m0s to 1m2s", "breaker closed, 1m2s to 1h0m0s",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not hold %q", want)
		}
	}
}
