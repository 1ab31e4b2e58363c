package gateway_test

import (
	"fmt"
	"strings"

	"github.com/redfence/redfence/gateway"
)

// Mistakes are told all at once, each by file, line and field.
func ExampleParse() {
	_, err := gateway.Parse("gateway.yaml", []byte(`routes:
  - path: /charges/
    upstream: 127.0.0.1:9000
    preset: best
    scope: {unscoped: true}
`))
	for problem := range strings.SplitSeq(err.Error(), "; gateway") {
		fmt.Println(strings.TrimPrefix(problem, "gateway"))
	}
	// Output:
	// .yaml:3: routes[0].upstream: "127.0.0.1:9000"; give an address such as http://127.0.0.1:9000
	// .yaml:4: routes[0].preset: unknown preset "best"; use ietf, stripe or webhook
}
