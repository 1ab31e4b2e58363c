package fiber_test

import (
	"fmt"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"

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
	app := fiber.New()
	app.Post("/charges/:id", func(c *fiber.Ctx) error {
		runs++
		return c.Status(fiber.StatusCreated).SendString(fmt.Sprintf("charge %s of run %d", c.Params("id"), runs))
	})
	demo.Twice(mw.Wrap(adaptor.FiberApp(app)))
	fmt.Println("runs:", runs)
	// Output:
	// 201 charge 42 of run 1 replayed=""
	// 201 charge 42 of run 1 replayed="true"
	// runs: 1
}
