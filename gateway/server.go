package gateway

import (
	"net/http"
	"time"
)

// NewServer returns a server for a handler with all time-outs and limits set,
// for HTTP/1.1 and HTTP/2, in the clear (h2c) as well: slow and huge headers and
// bodies end early; a response may take as long as a claim of the given maximal
// processing time (0: the default, 5 min).
func NewServer(h http.Handler, maxProcessing time.Duration) *http.Server {
	if maxProcessing == 0 {
		maxProcessing = 5 * time.Minute
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      maxProcessing + 2*time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		Protocols:         protocols,
	}
}
