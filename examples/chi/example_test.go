package chi_test

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/redfence/redfence/examples/demo"
)

// One request, sent twice: the handler runs once.
func Example() {
	mw, stop, err := demo.Middleware()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer stop()
	runs := 0
	r := chi.NewRouter()
	r.Use(mw.Wrap)
	r.Post("/charges/{id}", func(w http.ResponseWriter, r *http.Request) {
		runs++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "charge %s of run %d", chi.URLParam(r, "id"), runs)
	})
	demo.Twice(r)
	fmt.Println("runs:", runs)
	// Output:
	// 201 charge 42 of run 1 replayed=""
	// 201 charge 42 of run 1 replayed="true"
	// runs: 1
}
