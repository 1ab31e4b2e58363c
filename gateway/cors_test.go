package gateway

import (
	"net/http"
	"strings"
	"testing"
)

// Browsers see our headers where asked, on first responses, replays and
// refusals, beside what the upstream exposes.
func TestExposeHeaders(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Access-Control-Expose-Headers", "X-Theirs")
	})
	for _, expose := range []bool{true, false} {
		r := route(up.URL)
		r.ExposeHeaders = expose
		g := start(t, Config{Routes: []Route{r}})
		for _, body := range []string{"a", "a", "mismatch"} {
			got := post(t, g.URL, body, key)
			exposed := strings.Join(got.Header.Values("Access-Control-Expose-Headers"), ", ")
			if n := strings.Count(exposed, "Idempotent-Replayed"); (n == 1) != expose || n > 1 {
				t.Errorf("expose %v, %s: %d %q", expose, body, got.StatusCode, exposed)
			}
			if theirs := strings.Contains(exposed, "X-Theirs"); theirs != (body == "a") {
				t.Errorf("expose %v, %s: %q", expose, body, exposed)
			}
		}
	}
}
