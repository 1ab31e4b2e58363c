package gateway

import (
	"net/http"

	"github.com/redfence/redfence/redfencehttp"
)

// exposing lets browsers see the headers of this package in cross-origin
// responses. It sits outside of the recorder, so replays have them as well.
type exposing struct {
	http.ResponseWriter
	done bool
}

// WriteHeader implements http.ResponseWriter.
func (e *exposing) WriteHeader(status int) {
	e.expose(status)
	e.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (e *exposing) Write(p []byte) (int, error) {
	e.expose(http.StatusOK)
	return e.ResponseWriter.Write(p)
}

// Unwrap serves http.ResponseController.
func (e *exposing) Unwrap() http.ResponseWriter { return e.ResponseWriter }

func (e *exposing) expose(status int) {
	if e.done || status < 200 {
		return
	}
	e.done = true
	e.Header().Add("Access-Control-Expose-Headers",
		redfencehttp.ReplayedHeader+", "+redfencehttp.FenceHeader+", "+redfencehttp.DurableHeader+", Retry-After")
}
