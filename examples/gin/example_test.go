package gin_test

import (
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

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
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.POST("/charges/:id", func(c *gin.Context) {
		runs++
		c.String(http.StatusCreated, "charge %s of run %d", c.Param("id"), runs)
	})
	demo.Twice(mw.Wrap(r))
	fmt.Println("runs:", runs)
	// Output:
	// 201 charge 42 of run 1 replayed=""
	// 201 charge 42 of run 1 replayed="true"
	// runs: 1
}
