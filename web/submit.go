package web

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views/kit"
	"quantix/views/shell"
	"quantix/web/render"
)

// formRenderer shows the page or dialog of a form F, filled with in. how holds the status and errors of a refused form.
type formRenderer[F any] func(c echo.Context, a fleet.Actor, in F, how formDisplay) error

// formAction passes a submitted form F to control and returns the response after success.
type formAction[F any] func(c echo.Context, a fleet.Actor, in F) (formResponse, error)

// formResponse writes the response after a successful form: stay, redirect, redraw, or a page that is shown only once.
type formResponse func(c echo.Context) error

// emptyForm is a form without fields, only a button.
type emptyForm struct{}

// formDisplay is how a form is shown: for the first time, or again after a refusal, with its status and errors.
type formDisplay struct {
	status int
	errors kit.Errors
}

var firstDisplay = formDisplay{status: http.StatusOK}

// wasRefused reports whether the form was submitted and refused.
func (h formDisplay) wasRefused() bool { return h.status != http.StatusOK }

// showForm returns the handler that shows a form.
func showForm[F any](show formRenderer[F]) func(c echo.Context, a fleet.Actor) error {
	return func(c echo.Context, a fleet.Actor) error {
		var in F
		return show(c, a, in, firstDisplay)
	}
}

// submitForm returns the handler that takes a form, with the same outcomes for all forms:
//
//	decode   an unreadable form is Malformed or TooLarge, with the usual error response
//	do       calls control with the form
//	refused  Invalid and Conflict show the form again, with its input and each error at its field: status 422 and 409,
//	         and always 422 to htmx, which swaps no other error; any other error, and all errors if show is nil, get
//	         the usual error response
//	success  the response that do returned
func submitForm[F any](do formAction[F], show formRenderer[F]) func(c echo.Context, a fleet.Actor) error {
	return func(c echo.Context, a fleet.Actor) error {
		in, err := decodeForm[F](c)
		if err != nil {
			return err
		}
		taken, err := do(c, a, in)
		if err == nil {
			return taken(c)
		}
		if e, status, ok := formErrorsFrom(err); ok && show != nil {
			return show(c, a, in, formDisplay{statusOfRefusedForm(c, status), e})
		}
		return err
	}
}

// submitWithoutForm is submitForm for a form that is not shown again. An error is shown as a toast, or without scripts
// as a page.
func submitWithoutForm[F any](do formAction[F]) func(c echo.Context, a fleet.Actor) error {
	return submitForm(do, nil)
}

// stayOnPage keeps the user on the page. With scripts it closes the dialog and shows text as a toast; the live page
// refreshes itself. Without scripts it redirects to back.
func stayOnPage(back, text string) formResponse {
	return func(c echo.Context) error {
		if !render.IsHTMXRequest(c) {
			return c.Redirect(http.StatusSeeOther, back)
		}
		c.Response().Header().Set("HX-Trigger", triggerHeader(map[string]any{
			"close-dialog": true, "toast": map[string]string{"kind": "ok", "text": text},
		}))
		return c.NoContent(http.StatusNoContent)
	}
}

// redirectTo sends the user to another page.
func redirectTo(to string) formResponse {
	return func(c echo.Context) error {
		if !render.IsHTMXRequest(c) {
			return c.Redirect(http.StatusSeeOther, to)
		}
		c.Response().Header().Set("HX-Redirect", to)
		return c.NoContent(http.StatusNoContent)
	}
}

// redrawForm answers with show, which renders the form's part of the page again. Without scripts it redirects to back.
func redrawForm(back string, show func(c echo.Context) error) formResponse {
	return func(c echo.Context) error {
		if !render.IsHTMXRequest(c) {
			return c.Redirect(http.StatusSeeOther, back)
		}
		return show(c)
	}
}

// confirmDialog returns the function that shows a confirmation dialog for an action on the object, such as its
// deletion.
func confirmDialog[ID ~string, T any](r *render.Renderer, get func(context.Context, fleet.Actor, ID) (T, error), frame func(T) shell.PageLayout, dialog func(T, kit.Errors) templ.Component) formRenderer[emptyForm] {
	return func(c echo.Context, a fleet.Actor, _ emptyForm, how formDisplay) error {
		object, err := get(c.Request().Context(), a, ID(c.Param("id")))
		if err != nil {
			return err
		}
		return r.ShowPageWithStatus(c, how.status, a, frame(object), dialog(object, how.errors))
	}
}

// triggerHeader encodes events for the HX-Trigger header as ASCII JSON, because headers allow only ASCII.
func triggerHeader(events map[string]any) string {
	text, err := json.Marshal(events)
	if err != nil {
		return "{}" // not reached: maps of strings and booleans always encode
	}
	var out strings.Builder
	for _, r := range string(text) {
		if r < 0x80 {
			out.WriteRune(r)
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			out.WriteString(`\u` + strconv.FormatUint(uint64(u)+0x10000, 16)[1:])
		}
	}
	return out.String()
}
