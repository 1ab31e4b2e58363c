package echo_test

import (
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

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
	e := echo.New()
	e.Use(echo.WrapMiddleware(mw.Wrap))
	e.POST("/charges/:id", func(c echo.Context) error {
		runs++
		return c.String(http.StatusCreated, fmt.Sprintf("charge %s of run %d", c.Param("id"), runs))
	})
	demo.Twice(e)
	fmt.Println("runs:", runs)
	// Output:
	// 201 charge 42 of run 1 replayed=""
	// 201 charge 42 of run 1 replayed="true"
	// runs: 1
}
