package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redfence/redfence/redfencehttp"
)

// OutcomeHeader is how an upstream declares what becomes of its outcome:
// stored, released or unknown. It is not passed on.
const OutcomeHeader = "Redfence-Outcome"

var outcomes = map[string]redfencehttp.Disposition{
	"stored": redfencehttp.Stored, "released": redfencehttp.Released, "unknown": redfencehttp.Unknown,
}

// handler proxies the route under its protection.
func (c checked) handler(cfg Config) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite:        c.rewrite,
		ModifyResponse: c.modify,
		ErrorHandler:   func(w http.ResponseWriter, r *http.Request, err error) { c.failed(cfg, w, r, err) },
		Transport:      once{cfg.Transport},
		ErrorLog:       log.New(io.Discard, "", 0), // it would name the address with its query
	}
	protected := c.mw.Wrap(proxy)
	if !c.ExposeHeaders {
		return protected
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protected.ServeHTTP(&exposing{ResponseWriter: w}, r)
	})
}

func (c checked) rewrite(p *httputil.ProxyRequest) {
	p.SetURL(c.target)
	p.SetXForwarded()
	if c.PreserveHost {
		p.Out.Host = p.In.Host
	}
	removeOwn(p.Out.Header)
	if fence, ok := redfencehttp.Fence(p.In.Context()); ok {
		p.Out.Header.Set(redfencehttp.FenceHeader, strconv.FormatInt(fence, 10))
	}
}

// removeOwn takes away what only the gateway may say.
func removeOwn(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, "Redfence-") {
			delete(h, name)
		}
	}
}

func (c checked) modify(resp *http.Response) error {
	if d, ok := outcomes[strings.ToLower(resp.Header.Get(OutcomeHeader))]; ok {
		redfencehttp.Declare(resp.Request.Context(), d)
	}
	removeOwn(resp.Header)
	return nil
}

// failed answers for an upstream that did not. Only a failure to connect proves
// that nothing has happened.
func (c checked) failed(cfg Config, w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusBadGateway
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		redfencehttp.Declare(r.Context(), redfencehttp.Released)
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err) || r.Context().Err() != nil:
		status = http.StatusGatewayTimeout
	}
	cfg.Error(fmt.Errorf("upstream %s: %d: %w", c.target.Host, status, withoutURL(err)))
	w.WriteHeader(status)
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// withoutURL leaves the address out of an error: it may hold a key.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// once sends a request once. http.Transport sends one with an Idempotency-Key
// again by itself when its connection breaks, unless it has a body that it
// cannot rewind; so every request gets such a body.
type once struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (o once) RoundTrip(r *http.Request) (*http.Response, error) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
	default:
		r = r.WithContext(r.Context())
		r.GetBody = nil
		if r.Body == nil || r.Body == http.NoBody {
			r.Body = io.NopCloser(strings.NewReader(""))
		}
	}
	return o.RoundTripper.RoundTrip(r)
}

// NewTransport returns the transport that reaches upstreams when the
// configuration gives none. A response may take as long as the claim allows;
// everything else has a time-out.
func NewTransport() *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    5 * time.Second,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConnsPerHost:    256,
		MaxResponseHeaderBytes: 256 << 10,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // the client decides
	}
}
