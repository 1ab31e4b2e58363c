package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/instance"
	"github.com/redfence/redfence/redfencehttp"
)

// answer is what the instances' handler responds.
type answer struct {
	Key       string `json:"key"`
	Execution string `json:"execution"`
}

// send does one request and keeps it.
func (l *Load) send(ctx context.Context, kind string, p plan, number int) history.Op {
	op := history.Op{Kind: kind, Asked: p.asked, Key: p.key, Instance: number, Sent: l.options.Clock()}
	asked := http.Header{}
	asked.Set(instance.WorkHeader, p.work.String())
	asked.Set(instance.SinkHeader, p.sink)
	if p.asked == history.Panics {
		asked.Set(instance.ThenHeader, "panic")
	}
	Send(ctx, l.client, l.options.Instances[number], &op, asked)
	op.Got = l.options.Clock()
	l.keep(op, p)
	return op
}

// Send does one request for the op's key with further headers and fills in
// what came back. The body is the same for every request of a key, as it would
// be from a client that repeats itself, unless the headers make it another.
func Send(ctx context.Context, client *http.Client, base string, op *history.Op, asked http.Header) {
	text := fmt.Sprintf(`{"key":%q}`, op.Key)
	if other := asked.Get(instance.OtherHeader); other != "" {
		text = fmt.Sprintf(`{"key":%q,"other":%q}`, op.Key, other)
	}
	path := "/work"
	if op.Asked == history.Transfers {
		path = "/transfer"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, strings.NewReader(text))
	if err != nil {
		op.Err = err.Error()
		return
	}
	maps.Copy(req.Header, asked)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", op.Key)
	resp, err := client.Do(req)
	if err != nil {
		op.Err = err.Error()
		return
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		op.Err = err.Error() // cut off: not an answer
		return
	}
	op.Status, op.Body = resp.StatusCode, strings.TrimSpace(string(got))
	op.Fence = resp.Header.Get(redfencehttp.FenceHeader)
	op.Replayed = resp.Header.Get(redfencehttp.ReplayedHeader) == "true"
	if !op.OK() {
		return
	}
	op.Durable = resp.Header.Get(redfencehttp.DurableHeader) != "false"
	var a answer
	if json.Unmarshal(got, &a) == nil {
		op.Execution = a.Execution
	}
}
