package workload

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"

	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/instance"
	"github.com/redfence/redfence/redfencehttp"
)

// answer is what the instances' handler responds, and as much of it as others
// should.
type answer struct {
	Execution json.RawMessage `json:"execution"`
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
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint(base, op.Asked), strings.NewReader(text))
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
	op.Execution = executionOf(got)
}

// endpoint is where a request goes: a URL with a path is another service's.
func endpoint(base, asked string) string {
	switch u, err := url.Parse(base); {
	case err == nil && u.Path != "":
		return base
	case asked == history.Transfers:
		return base + "/transfer"
	}
	return base + "/work"
}

// executionOf is what an answer says that made it: a text or a number. Of one
// that says nothing it is a digest, by which answers can still be told apart.
func executionOf(body []byte) string {
	var a answer
	var text string
	if json.Unmarshal(body, &a) == nil && len(a.Execution) > 0 && json.Unmarshal(a.Execution, &text) != nil {
		text = string(a.Execution)
	}
	return cmp.Or(text, fmt.Sprintf("%x", sha256.Sum256(body))[:16])
}
