package recorder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redfence/redfence/chaos/internal/history"
)

// Clock is the machine's monotonic clock, which every process on it shares.
func Clock() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // fails only for a clock that is not there
	return time.Duration(t.Nano())
}

// Client sends effects to a recorder. It is safe for concurrent use.
type Client struct {
	url  string
	http *http.Client
}

// NewClient returns a client for the recorder at the URL.
func NewClient(url string) *Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	return &Client{url: url, http: &http.Client{Transport: transport, Timeout: 10 * time.Second}}
}

// Record sends one effect and returns what its sink made of it once it is on
// disk. After an error it may have been applied all the same.
func (c *Client) Record(ctx context.Context, e history.Effect) (recorded history.Effect, err error) {
	body, err := json.Marshal(e)
	if err != nil {
		return e, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return e, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return e, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return e, fmt.Errorf("recorder: %s", resp.Status)
	}
	return recorded, json.NewDecoder(resp.Body).Decode(&recorded)
}

// Close gives idle connections back.
func (c *Client) Close() { c.http.CloseIdleConnections() }
