package web

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
)

// asking shows the page or the dialog of a form F with in typed in it. How says whether it is the first time.
type asking[F any] func(c echo.Context, a fleet.Actor, in F, how asked) error

// doing asks control for what a form F says, and where that ends.
type doing[F any] func(c echo.Context, a fleet.Actor, in F) (end, error)

// end answers a form that was taken: stay, leave, redraw, or a page that is shown this once.
type end func(c echo.Context) error

// none is a form of nothing but its button.
type none struct{}

// asked is how a form is shown: first, with nothing typed yet, or again with what is wrong at its fields.
type asked struct {
	status int
	errors kit.Errors
}

var first = asked{status: http.StatusOK}

// again tells a form that was typed and refused from one in which nothing is typed yet.
func (h asked) again() bool { return h.status != http.StatusOK }

// ask is the route at which a form is got.
func ask[F any](show asking[F]) handler {
	return func(c echo.Context, a fleet.Actor) error {
		var in F
		return show(c, a, in, first)
	}
}

// submit is the route that takes a form, and the one place that says what all forms do:
//
//	decode   what cannot be read is Malformed or TooLarge, and answered as everywhere
//	do       calls control with what was typed
//	refused  Invalid and Conflict show the form again, with what was typed and each refusal at its field: 422 and 409, and to
//	         htmx, which swaps no other refusal, 422; any other error is answered as everywhere, and all of them where show is nil
//	taken    the end that do gave
func submit[F any](do doing[F], show asking[F]) handler {
	return func(c echo.Context, a fleet.Actor) error {
		in, err := decode[F](c)
		if err != nil {
			return err
		}
		taken, err := do(c, a, in)
		if err == nil {
			return taken(c)
		}
		if e, status, ok := formErrors(err); ok && show != nil {
			return show(c, a, in, asked{formStatus(c, status), e})
		}
		return err
	}
}

// button is submit of a form that is not shown again: its refusals are a toast, or a page without scripts.
func button[F any](do doing[F]) handler { return submit(do, nil) }

// stay leaves the person where they are: with scripts a toast, and the live page redraws itself; without, back to the page.
func stay(back, text string) end {
	return func(c echo.Context) error {
		if !isHX(c) {
			return c.Redirect(http.StatusSeeOther, back)
		}
		c.Response().Header().Set("HX-Trigger", trigger(map[string]any{
			"close-dialog": true, "toast": map[string]string{"kind": "ok", "text": text},
		}))
		return c.NoContent(http.StatusNoContent)
	}
}

// redirect brings the person to another page.
func redirect(to string) end {
	return func(c echo.Context) error {
		if !isHX(c) {
			return c.Redirect(http.StatusSeeOther, to)
		}
		c.Response().Header().Set("HX-Redirect", to)
		return c.NoContent(http.StatusNoContent)
	}
}

// redraw gives the form's part of the page anew; without scripts it leads back to the page.
func redraw(back string, show func(c echo.Context) error) end {
	return func(c echo.Context) error {
		if !isHX(c) {
			return c.Redirect(http.StatusSeeOther, back)
		}
		return show(c)
	}
}
