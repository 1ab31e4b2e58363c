package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/redfencehttp"
)

// answer is what the instances' handler responds.
type answer struct {
	Key       string `json:"key"`
	Execution string `json:"execution"`
}

// send does one request and keeps it. The body is the same for every request
// of a key, as it would be from a client that repeats itself.
func (l *Load) send(ctx context.Context, kind, key string, work time.Duration, instance int) history.Op {
	op := history.Op{Kind: kind, Key: key, Instance: instance, Sent: l.options.Clock()}
	l.do(ctx, &op, work)
	op.Got = l.options.Clock()
	l.keep(op)
	return op
}

func (l *Load) do(ctx context.Context, op *history.Op, work time.Duration) {
	url := l.options.Instances[op.Instance] + "/work"
	body := strings.NewReader(fmt.Sprintf(`{"key":%q}`, op.Key))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		op.Err = err.Error()
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", op.Key)
	req.Header.Set("Work", work.String())
	resp, err := l.client.Do(req)
	if err != nil {
		op.Err = err.Error()
		return
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		op.Err = err.Error() // cut off: not an answer
		return
	}
	op.Status, op.Body = resp.StatusCode, string(text)
	op.Fence = resp.Header.Get(redfencehttp.FenceHeader)
	op.Replayed = resp.Header.Get(redfencehttp.ReplayedHeader) == "true"
	if !op.OK() {
		return
	}
	op.Durable = resp.Header.Get(redfencehttp.DurableHeader) != "false"
	var a answer
	if json.Unmarshal(text, &a) == nil {
		op.Execution = a.Execution
	}
}
