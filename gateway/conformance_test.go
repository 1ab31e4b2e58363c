package gateway

import (
	"net/http"
	"testing"

	"github.com/redfence/redfence/redfencehttp/conformance"
)

// The suite, through the gateway, over HTTP/1.1 and HTTP/2 in the clear.
func TestConformance(t *testing.T) {
	for name, preset := range conformance.Presets {
		preset.Streams = false // chunks that merely have no length are recorded
		up := upstream(t, conformance.App().ServeHTTP)
		up.Config.ErrorLog = quiet
		for protocol, client := range map[string]*http.Client{"http1": {Transport: plainTransport(false)}, "h2c": {Transport: plainTransport(true)}} {
			client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			t.Run(name+"/"+protocol, func(t *testing.T) {
				defer client.CloseIdleConnections()
				r := route(up.URL)
				r.Preset = name
				g := start(t, Config{Routes: []Route{r}})
				conformance.Run(t, conformance.Target{URL: g.URL, Client: client, Preset: preset})
			})
		}
	}
}

func plainTransport(h2c bool) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!h2c)
	protocols.SetUnencryptedHTTP2(h2c)
	return &http.Transport{DisableCompression: true, Protocols: protocols}
}
